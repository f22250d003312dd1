//! `GET /v1/NAMESPACE/queues/QUEUE/jobs` lists the jobs of a queue; `POST …/jobs/act` acts on all that match a filter.

use std::str::FromStr;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_api_types::job::{
    ActAnswer, ActBody, ActName, DeadReason, JobDetails, JobFilter, JobListPage,
};
use tidegate_api_types::problem::InvalidRequest;
use tidegate_api_types::values::{CursorText, StateName};
use tidegate_core::{JobState, QueueKey, Scope};
use tidegate_engine::{JobAct, JobCriteria};
use tidegate_store::ListedJob;

use super::answer::json_answer;
use super::error::NativeError;
use super::job::{details, stored_change, stored_if_running};
use super::native_request::NativeRequest;

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Read)?;
    let queue = request.queue()?;
    let (query, filter) = request.read_filtered_list::<JobFilter>()?;
    let criteria = criteria(filter, &ALL_STATES);
    let cursor = read_cursor(query.cursor.as_ref())?;
    let limit = usize::from(query.limit.get());
    let page = request
        .pool()
        .list_jobs(&queue, &criteria, cursor, limit)
        .await?;
    let items = page
        .jobs
        .iter()
        .map(|listed| item(&request, &queue, listed));
    let answer = JobListPage {
        items: items.collect(),
        next: write_cursor(page.next.as_ref())?,
    };
    Ok(json_answer(StatusCode::OK, &answer))
}

pub(super) async fn act(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.need(Scope::Admin)?;
    request.without_query()?;
    let queue = request.queue()?;
    let body: ActBody = request.read_json().await?;
    let act = match body.act {
        ActName::Cancel => JobAct::Cancel(stored_if_running(body.running.unwrap_or_default())),
        ActName::Promote => JobAct::Promote,
        ActName::Respawn => {
            let space = body
                .rate_per_second
                .map(|rate| Duration::from_secs(1) / rate.get());
            JobAct::Respawn(space.unwrap_or_default())
        }
        ActName::Purge => JobAct::Purge,
        ActName::Change => JobAct::Change(stored_change(&body.change.unwrap_or_default())),
    };
    let criteria = criteria(body.filter, body.act.states());
    let cursor = read_cursor(body.cursor.as_ref())?;
    let limit = usize::from(body.limit.get());
    let pool = request.pool();
    let page = pool
        .act(&queue, act, &criteria, cursor, limit, body.dry_run)
        .await?;
    let answer = ActAnswer {
        matched: page.matched,
        changed: page.changed,
        next: write_cursor(page.next.as_ref())?,
        wait_ms: u64::try_from(page.wait.as_millis()).unwrap_or(u64::MAX),
    };
    Ok(json_answer(StatusCode::OK, &answer))
}

const ALL_STATES: [StateName; 5] = [
    StateName::Delayed,
    StateName::Ready,
    StateName::Leased,
    StateName::Dead,
    StateName::Done,
];

/// A filter as the engine takes it. Without a state it is for these.
fn criteria(filter: JobFilter, states: &[StateName]) -> JobCriteria {
    let states = filter.state.as_ref().map_or(states, std::slice::from_ref);
    JobCriteria {
        states: states.iter().map(|state| job_state(*state)).collect(),
        from_ms: filter.due_from.map_or(0, |from| from.as_ms()),
        before_ms: filter
            .due_before
            .map_or(i64::MAX as u64, |before| before.as_ms()),
        key_prefix: filter.key_prefix.map(Into::into),
        attribute: filter.attribute.map(|attribute| {
            let (name, value) = attribute.parts();
            (name.to_owned(), value.to_owned())
        }),
        error_contains: filter.error_contains.map(Into::into),
    }
}

const fn job_state(state: StateName) -> JobState {
    match state {
        StateName::Delayed => JobState::Delayed,
        StateName::Ready => JobState::Ready,
        StateName::Leased => JobState::Leased,
        StateName::Dead => JobState::Dead,
        StateName::Done => JobState::Done,
    }
}

/// A job as it is listed.
fn item(request: &NativeRequest, queue: &QueueKey, listed: &ListedJob) -> JobDetails {
    let max_attempts = request.pool().max_attempts(queue, &listed.job);
    let mut item = details(
        queue,
        &listed.job,
        max_attempts,
        listed.last_failure.as_slice(),
    );
    if listed.is_damaged {
        item.content_type = None;
        item.reason = item.reason.map(|_| DeadReason::Unreadable);
    }
    item
}

/// Where a list or an action continues; at its begin without a cursor.
fn read_cursor<T: FromStr + Default>(cursor: Option<&CursorText>) -> Result<T, NativeError> {
    let Some(cursor) = cursor else {
        return Ok(T::default());
    };
    cursor.as_str().parse().map_err(|_| {
        let detail = "send the cursor as `next` of the page before";
        InvalidRequest::of_field("cursor", detail).into()
    })
}

fn write_cursor(next: Option<&impl ToString>) -> Result<Option<CursorText>, NativeError> {
    let next = next.map(|next| next.to_string().try_into());
    next.transpose().map_err(|_| NativeError::internal())
}
