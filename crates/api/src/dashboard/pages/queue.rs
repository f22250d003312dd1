//! `/ui/POOL/queues/NAMESPACE/QUEUE`: a queue, why its jobs wait, and its policy.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::json;
use tidegate_core::limits::ConfigurableLimits;
use tidegate_core::v1::input::read_body;
use tidegate_core::v1::job::{JobExplanation, JobFilter};
use tidegate_core::v1::queue::PolicyChange;
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{JobState, QueueKey, RetrySteps};
use tidegate_engine::{JobCursor, PolicyChangeError, Pool, QueueFigures, QueueRate};
use tidegate_store::{RateOwner, TakenUnits};

use super::super::action::{ActionTarget, Done, then};
use super::super::error::PageError;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::{Visit, queue_key};
use super::super::{links, text};
use super::parts::{charts, tiles};
use crate::config::AccountRole;
use crate::v1::{OVERDUE_MS, explain};

/// Hints that one call reads to find the first job.
const HINTS_PER_CALL: usize = 50;

/// The parts of an address that name a queue.
pub(in super::super) type QueuePath = Path<(String, String, String)>;

pub(in super::super) async fn show(visit: Visit, path: QueuePath) -> Response {
    show_queue(visit, path, page).await
}

/// Answers with a page about a queue.
pub(super) async fn show_queue<R>(
    visit: Visit,
    path: QueuePath,
    page: impl Fn(Arc<Visit>, Arc<Pool>, QueueKey) -> R + Send + 'static,
) -> Response
where
    R: Future<Output = Result<Page, PageError>> + Send + 'static,
{
    match named(&visit, path) {
        Ok((pool, queue)) => {
            let render = move |visit| page(visit, Arc::clone(&pool), queue.clone());
            visit.show(render).await
        }
        Err(error) => error.into_response(),
    }
}

/// The pool and the queue of an address.
pub(super) fn named(
    visit: &Visit,
    Path((pool, namespace, queue)): QueuePath,
) -> Result<(Arc<Pool>, QueueKey), PageError> {
    Ok((visit.pool(&pool)?, queue_key(&namespace, &queue)?))
}

/// The pages above a page about a queue.
pub(super) fn trail(pool: &str, queue: &QueueKey) -> Vec<(String, String)> {
    let queues = ("Queues".to_owned(), links::queues(pool));
    vec![queues, (queue.to_string(), links::queue(pool, queue))]
}

async fn page(visit: Arc<Visit>, pool: Arc<Pool>, queue: QueueKey) -> Result<Page, PageError> {
    let sizes = pool.sizes().await;
    let overview = sizes.map(|sizes| sizes.overview_of(|other| *other == queue));
    let overview = overview.unwrap_or_default();
    let known = overview.queues.get(&queue).copied().unwrap_or_default();
    let figures = QueueFigures {
        stats: pool.stats(&queue).await?,
        ..known
    };
    let jobs = links::jobs(&pool.name, &queue);
    let of_state = |state| match state {
        JobState::Dead => Some(links::dead(&pool.name, &queue)),
        state => Some(links::with_query(&jobs, [("state", state.as_str())])),
    };
    let rates = pool.look_at_rates(&queue).await?;
    let holds = what_holds(&pool, &queue, &figures, overview.overdue_ms).await?;
    let live = html! {
        (tiles(&figures, of_state))
        h2 { "Why jobs wait" }
        p { (holds) }
        (charts(&visit, &pool, Some(&queue), figures, overview.overdue_ms))
    };
    Ok(Page {
        title: queue.to_string(),
        place: Some((pool.name.to_string(), Section::Queues)),
        trail: vec![("Queues".to_owned(), links::queues(&pool.name))],
        seen: None,
        blocks: vec![
            PageBlock::live("figures", live),
            PageBlock::fixed("actions", actions(&visit, &pool, &queue)),
            PageBlock::live("policy", policy(&pool, &queue, &rates)),
        ],
    })
}

/// Why the oldest ready job is not delivered, or why there is none. `overdue_ms` is how late timers of the deployment
/// are.
async fn what_holds(
    pool: &Pool,
    queue: &QueueKey,
    figures: &QueueFigures,
    overdue_ms: u64,
) -> Result<String, PageError> {
    let stats = &figures.stats;
    let ready = JobFilter {
        state: Some(JobState::Ready),
        ..JobFilter::default()
    };
    if let Some(job) = first_explained(pool, queue, &ready).await? {
        return Ok(format!("The oldest ready job: {}", job.summary));
    }
    if stats.ready > 0 {
        return Ok("Jobs are ready. None of them is among the first entries of their list, which are of jobs that are gone.".to_owned());
    }
    if overdue_ms > OVERDUE_MS {
        let late_since_ms = text::now().as_ms().saturating_sub(OVERDUE_MS);
        for state in [JobState::Delayed, JobState::Leased] {
            let late = JobFilter {
                state: Some(state),
                due_before: Some(Timestamp::saturating(late_since_ms)),
                ..JobFilter::default()
            };
            if let Some(job) = first_explained(pool, queue, &late).await? {
                return Ok(format!("No job is ready. One that is due: {}", job.summary));
            }
        }
    }
    Ok(match (stats.delayed, stats.leased) {
        (1, _) => "No job is ready. 1 is not due yet.".to_owned(),
        (2.., _) => format!(
            "No job is ready. {} are not due yet.",
            text::number(stats.delayed)
        ),
        (0, 1..) => "No job is ready: workers hold all that are due.".to_owned(),
        (0, 0) => "No job waits.".to_owned(),
    })
}

/// The first job of a queue that matches a filter, among the entries that few calls read.
async fn first_explained(
    pool: &Pool,
    queue: &QueueKey,
    filter: &JobFilter,
) -> Result<Option<JobExplanation>, PageError> {
    let first = pool.recheck_jobs(queue, filter, JobCursor::default(), HINTS_PER_CALL);
    Ok(match first.await?.jobs.first() {
        Some(listed) => explain(pool, queue, listed.job.id.into()).await?,
        None => None,
    })
}

fn actions(visit: &Visit, pool: &Pool, queue: &QueueKey) -> Markup {
    let policy = pool.policy(queue);
    let (pause, pause_text) = match pool.is_paused(queue) {
        true => ("resume", "Resume deliveries"),
        false => ("pause", "Pause deliveries"),
    };
    let (close, close_text) = match policy.closed {
        true => ("open", "Accept new jobs"),
        false => ("close", "Refuse new jobs"),
    };
    let button = |name: &str, title: &str| {
        html! { button name="do" value=(name) { (title) } }
    };
    html! {
        h2 { "Actions" }
        p.row {
            a.button href=(links::jobs(&pool.name, queue)) { "Jobs" }
            a.button href=(links::dead(&pool.name, queue)) { "Dead jobs" }
        }
        @if visit.may(AccountRole::Operate) {
            form.row method="post" action=(links::queue(&pool.name, queue)) {
                (visit.token.field())
                (button(pause, pause_text))
                @if visit.may(AccountRole::Admin) { (button(close, close_text)) }
            }
        }
        @if visit.may(AccountRole::Admin) {
            form.row method="post" action=(links::queue(&pool.name, queue)) {
                (visit.token.field())
                label { "Running jobs at most, or nothing"
                    input name="max_running" inputmode="numeric" value=[policy.max_running];
                }
                (button("limit", "Set the limit"))
            }
        }
    }
}

fn policy(pool: &Pool, queue: &QueueKey, rates: &[(QueueRate, TakenUnits)]) -> Markup {
    let policy = pool.policy(queue);
    let delays = match &policy.retry.delays.steps {
        RetrySteps::Growing {
            first_ms,
            factor,
            max_ms,
        } => {
            let (first, max) = (text::duration(*first_ms), text::duration(*max_ms));
            format!("{first}, then × {factor} up to {max}")
        }
        RetrySteps::Listed(delays) => {
            let delays: Vec<String> = delays.iter().map(|ms| text::duration(*ms)).collect();
            delays.join(", ")
        }
    };
    let yes_no = |value| if value { "yes" } else { "no" };
    // A pause that has ended stays in the policy.
    let is_paused = pool.is_paused(queue);
    let pause_end = policy.paused_until.filter(|_| is_paused);
    html! {
        h2 { "Policy" }
        dl {
            dt { "Paused" } dd {
                (yes_no(is_paused))
                @if let Some(end) = pause_end { ", until " (text::time(end)) }
            }
            dt { "Closed" } dd { (yes_no(policy.closed)) }
            dt { "Lanes" } dd { (pool.lanes.open(queue)) }
            dt { "Lease" } dd { (text::duration(policy.lease_ms)) }
            dt { "Attempts" } dd { (policy.retry.max_attempts) }
            dt { "Retry delays" } dd { (delays) }
            dt { "Jobs at most" } dd { @match policy.max_jobs { Some(jobs) => (text::number(jobs)), None => "not limited" } }
            dt { "Running at most" } dd { @match policy.max_running { Some(jobs) => (text::number(jobs)), None => "not limited" } }
            dt { "Running at most of a group" } dd { @match policy.groups.max_running { Some(jobs) => (text::number(jobs)), None => "not limited" } }
            @for (QueueRate { owner, rate }, look) in rates {
                dt { @match owner { RateOwner::Limit(limit) => { "Limit " (limit.name) }, _ => "Rate" } }
                dd {
                    (text::number(rate.jobs)) " in " (text::duration(rate.per_ms))
                    @if look.is_used_up() { ", next in " (text::duration(look.next_ms - look.now_ms)) }
                }
            }
            dt { "Done jobs are kept" } dd { (text::duration(policy.retain_ms)) }
            dt { "Dead jobs are kept" } dd { @match policy.keep_dead_ms { Some(kept_ms) => (text::duration(kept_ms)), None => "for ever" } }
        }
    }
}

/// `POST`: pauses, resumes, closes or opens the queue, or limits its running jobs.
pub(in super::super) async fn act(
    visit: Visit,
    path: QueuePath,
    body: Body,
) -> Result<Response, PageError> {
    let (pool, queue) = named(&visit, path)?;
    let form = visit.read_form(body).await?;
    let verb = form.get("do").unwrap_or_default();
    let (role, done): (AccountRole, Done) = match verb {
        "pause" => (AccountRole::Operate, Done::Paused),
        "resume" => (AccountRole::Operate, Done::Resumed),
        "close" => (AccountRole::Admin, Done::Closed),
        "open" => (AccountRole::Admin, Done::Opened),
        "limit" => (AccountRole::Admin, Done::Limited),
        _ => {
            return Err(PageError::Invalid(
                "There is no such action for a queue.".to_owned(),
            ));
        }
    };
    visit.need(role)?;
    let limit = form.get("max_running").map(str::trim).unwrap_or_default();
    let change = change_of(done, limit)?;
    let merge = |policy| change.apply_to(&policy);
    let target = ActionTarget::Queue(&pool.name, &queue);
    let detail = match (done, limit) {
        (Done::Limited, "") => "max_running=none".to_owned(),
        (Done::Limited, limit) => format!("max_running={limit}"),
        _ => String::new(),
    };
    let changed = pool.policies.change(&queue, None, merge).await;
    changed.map_err(|error| match error {
        PolicyChangeError::Rejected(invalid) => PageError::Invalid(invalid.detail),
        PolicyChangeError::Store(error) => {
            visit.log_unknown(verb, target, &detail);
            error.into()
        }
        error @ (PolicyChangeError::VersionMismatch | PolicyChangeError::Unreadable(_)) => {
            PageError::Invalid(error.to_string())
        }
    })?;
    visit.log(verb, target, &detail);
    Ok(then(&links::queue(&pool.name, &queue), done).into_response())
}

/// The change of the policy for an action. `limit` is the limit of running jobs; empty = none.
fn change_of(done: Done, limit: &str) -> Result<PolicyChange, PageError> {
    let change = match done {
        Done::Paused | Done::Resumed => {
            json!({"paused": done == Done::Paused, "paused_until": null})
        }
        Done::Limited if limit.is_empty() => json!({"max_running": null}),
        Done::Limited => json!({"max_running": limit.parse::<u64>().map_err(|_| {
            PageError::Invalid("The limit of running jobs is a whole number.".to_owned())
        })?}),
        done => json!({"closed": done == Done::Closed}),
    };
    let change = read_body(
        change.to_string().as_bytes(),
        &ConfigurableLimits::default(),
    );
    change.map_err(|invalid| PageError::Invalid(invalid.detail))
}
