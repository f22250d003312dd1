//! `/v1/NAMESPACE/schedules`: shows, sets and deletes the schedules of a namespace.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::schedule::{CatchUpRule, InvalidSchedule, Overlap};
use tidegate_core::v1::problem::{InvalidRequest, ProblemCode};
use tidegate_core::v1::queue::ListQuery;
use tidegate_core::v1::schedule::{NextRunsQuery, Schedule, ScheduleDetails, ScheduleRuns};
use tidegate_core::v1::values::{JobKey, ScheduleNameText, Timestamp};
use tidegate_core::v1::{DeleteAnswer, Page};
use tidegate_core::{QueueKey, Scope};
use tidegate_engine::ChangeAttempts;
use tidegate_store::{
    NamespacedName, Row, ScheduleDefinition, ScheduleTimes, Schedules, TableRevision,
    TableSetOutcome, schedule_job_key,
};

use super::answer::{json_answer, page_answer, set_status};
use super::error::NativeError;
use super::native_request::NativeRequest;
use super::new_job::new_job;
use super::table_change::condition;
use crate::http::{etag, unread};

/// The most bytes of a schedule: more than all its texts have.
const BODY_BYTES_MAX: usize = 256 * 1024;

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let query: ListQuery = request.read_query()?;
    let share = unread::share_of_page(request.unread())?;
    let schedules = &request.pool().schedules;
    let after = query.cursor.as_ref().map(|cursor| cursor.as_str());
    let limit = usize::from(query.limit.get());
    let page = schedules.page(request.namespace()?, after, limit).await?;
    let last = page.schedules.last().filter(|_| page.has_more);
    let next = last.map(|(key, _)| key.name.parse()).transpose();
    let next = next.map_err(|_| NativeError::internal())?;
    // A damaged schedule is left out.
    let stored = page.schedules.into_iter();
    let readable = stored.filter_map(|(key, row)| ReadSchedule::of(key, &row).ok());
    let items = with_next_runs(schedules, readable.collect()).await?;
    Ok(page_answer(&Page { items, next }, share))
}

pub(super) async fn show(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let key = request.schedule()?;
    let stored = find(&request, &key).await?.ok_or_else(not_found)?;
    answer(&request, StatusCode::OK, &key, &stored).await
}

pub(super) async fn next(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let query: NextRunsQuery = request.read_query()?;
    let key = request.schedule()?;
    let stored = find(&request, &key).await?.ok_or_else(not_found)?;
    let (definition, queue) = readable(&key, &stored)?;
    let mut at_ms = request.pool().schedules.now_ms(&queue).await?;
    let rule = definition.times.rule().map_err(|_| unreadable())?;
    let mut runs = Vec::new();
    while runs.len() < usize::from(query.count.get()) && !definition.times.paused {
        let Some(tick_ms) = rule.next_after(at_ms) else {
            break;
        };
        runs.push(Timestamp::saturating(tick_ms));
        at_ms = tick_ms;
    }
    Ok(json_answer(StatusCode::OK, &ScheduleRuns { runs }))
}

/// Creates the schedule, or replaces it as a whole.
pub(super) async fn set(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    // The schedule publishes on behalf of this key.
    request.need(Scope::Publish)?;
    request.without_query()?;
    let key = request.schedule()?;
    let condition = condition(&request, "schedule")?;
    let config: Schedule = request.read_json_up_to(BODY_BYTES_MAX).await?;
    let queue = request.queue_named(config.queue.as_str())?;
    let definition = definition(&key, &queue, config)?;
    let mut attempts = ChangeAttempts::new(condition);
    loop {
        attempts.next().await?;
        let stored = find(&request, &key).await?;
        let expected = attempts.expected(stored.as_ref())?;
        let status = set_status(stored.is_some());
        let known = stored.and_then(|row| row.queue(&key.namespace));
        if let Some(known) = known.filter(|known| *known != queue) {
            let detail = format!(
                "the schedule is one of the queue {}; delete it first, and set it again",
                known.queue.as_str()
            );
            return Err(InvalidRequest::of_field("queue", detail).into());
        }
        let schedules = &request.pool().schedules;
        let set = schedules.set(&key, &queue, &definition, expected).await?;
        if let TableSetOutcome::Done(revision) = set {
            tracing::info!(schedule = %key, %revision, "set a schedule");
            let row = Row {
                revision: Some(revision),
                value: Ok(definition),
            };
            return answer(&request, status, &key, &row).await;
        }
    }
}

pub(super) async fn delete(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let key = request.schedule()?;
    let condition = condition(&request, "schedule")?;
    let mut attempts = ChangeAttempts::new(condition);
    loop {
        attempts.next().await?;
        let stored = find(&request, &key).await?.ok_or_else(not_found)?;
        let expected = attempts.expected(Some(&stored))?;
        let queue = stored.queue(&key.namespace);
        let schedules = &request.pool().schedules;
        let removed = schedules.remove(&key, queue.as_ref(), expected).await?;
        if let TableSetOutcome::Done(_) = removed {
            tracing::info!(schedule = %key, "deleted a schedule");
            return Ok(json_answer(StatusCode::OK, &DeleteAnswer::Deleted));
        }
    }
}

async fn find(
    request: &NativeRequest,
    key: &NamespacedName,
) -> Result<Option<Row<ScheduleDefinition>>, NativeError> {
    Ok(request.pool().schedules.get(key).await?)
}

/// The stored definition of a schedule, from the request. Fails if there is no such time zone, or the pattern cannot be
/// read.
fn definition(
    key: &NamespacedName,
    queue: &QueueKey,
    config: Schedule,
) -> Result<ScheduleDefinition, NativeError> {
    let shown = serde_json::value::to_raw_value(&config).map_err(|_| NativeError::internal())?;
    let times = ScheduleTimes {
        cron: config.cron,
        time_zone: config.time_zone,
        every_ms: config.every.map(|every| every.as_ms()),
        starts_at_ms: config.starts_at.map(Timestamp::as_ms),
        ends_at_ms: config.ends_at.map(Timestamp::as_ms),
        paused: config.paused,
    };
    times.rule().map_err(|invalid| {
        let field = match invalid {
            InvalidSchedule::Cron(_) => "cron",
            InvalidSchedule::TimeZone(_) => "time_zone",
            InvalidSchedule::Every => "every",
        };
        InvalidRequest::of_field(field, invalid.to_string())
    })?;
    let overlap = config.overlap;
    let catch_up = CatchUpRule {
        which: config.catch_up,
        window_ms: config.catch_up_window.map(|window| window.as_ms()),
    };
    let (payload, attributes) = config.job.content.into_parts()?;
    let mut options = config.job.options;
    if overlap != Overlap::Allow {
        let job_key: Result<JobKey, _> = schedule_job_key(key).parse();
        options.key = Some(job_key.map_err(|_| NativeError::internal())?);
    }
    let job = new_job(queue, payload, attributes, &options);
    Ok(ScheduleDefinition::new(
        queue, times, overlap, catch_up, &job, shown,
    ))
}

fn not_found() -> NativeError {
    NativeError::of(ProblemCode::ScheduleNotFound)
}

fn unreadable() -> NativeError {
    NativeError::of(ProblemCode::ScheduleUnreadable)
}

/// The definition and the queue of a stored schedule.
fn readable<'a>(
    key: &NamespacedName,
    stored: &'a Row<ScheduleDefinition>,
) -> Result<(&'a ScheduleDefinition, QueueKey), NativeError> {
    let definition = stored.value.as_ref().map_err(|_| unreadable())?;
    let queue = stored.queue(&key.namespace).ok_or_else(unreadable)?;
    Ok((definition, queue))
}

/// A schedule that can be read.
struct ReadSchedule {
    key: NamespacedName,
    queue: QueueKey,
    name: ScheduleNameText,
    revision: TableRevision,
    config: Schedule,
}

impl ReadSchedule {
    fn of(key: NamespacedName, stored: &Row<ScheduleDefinition>) -> Result<Self, NativeError> {
        let (definition, queue) = readable(&key, stored)?;
        let config = serde_json::from_str(definition.shown.get()).map_err(|_| unreadable())?;
        Ok(Self {
            name: key.name.parse().map_err(|_| unreadable())?,
            revision: stored.revision.ok_or_else(unreadable)?,
            key,
            queue,
            config,
        })
    }
}

/// Schedules as they are shown.
async fn with_next_runs(
    schedules: &Schedules,
    read: Vec<ReadSchedule>,
) -> Result<Vec<ScheduleDetails>, NativeError> {
    let keys: Vec<_> = read.iter().map(|it| (&it.key, &it.queue)).collect();
    let ticks = schedules.all_next_ms(&keys).await?;
    let shown = read
        .into_iter()
        .zip(ticks)
        .map(|(read, next_ms)| ScheduleDetails {
            name: read.name,
            revision: read.revision.to_string(),
            config: read.config,
            next_run: next_ms.map(Timestamp::saturating),
        });
    Ok(shown.collect())
}

async fn answer(
    request: &NativeRequest,
    status: StatusCode,
    key: &NamespacedName,
    stored: &Row<ScheduleDefinition>,
) -> Result<Response<Body>, NativeError> {
    let read = ReadSchedule::of(key.clone(), stored)?;
    let revision = read.revision;
    let shown = with_next_runs(&request.pool().schedules, vec![read]).await?;
    let shown = shown.first().ok_or_else(NativeError::internal)?;
    let mut response = json_answer(status, shown);
    etag::set(response.headers_mut(), revision);
    Ok(response)
}
