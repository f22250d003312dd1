//! `/ui/POOL/queues/NAMESPACE/QUEUE/jobs/JOB`: one job: why it is where it is, its attempts, its payload, and its
//! actions.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::json;
use tidegate_core::limits::ConfigurableLimits;
use tidegate_core::v1::input::read_body;
use tidegate_core::v1::job::{ActBody, ActName, JobChange, JobDetails, JobExplanation};
use tidegate_core::{IfRunning, Job, JobId, JobState, QueueKey};
use tidegate_engine::{EngineError, Pool};
use tidegate_store::{CancelOutcome, JobReference};

use super::super::action::{ActionTarget, Done, then};
use super::super::error::PageError;
use super::super::form::SubmittedForm;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::{Visit, job_id};
use super::super::{links, text};
use super::parts::{reason_text, state_badge};
use super::queue::{named, trail};
use crate::config::AccountRole;
use crate::v1::{details, explain};

/// How much of a payload is shown, in characters.
const PAYLOAD_CHARACTERS: usize = 64 * 1024;
/// How many bytes of a payload are shown that is no text.
const PAYLOAD_BYTES: usize = 512;

type JobPath = Path<(String, String, String, String)>;

const GONE: PageError = PageError::NotFound(
    "There is no such job: it is done, cancelled or expired, or it was in another queue.",
);

fn job_named(
    visit: &Visit,
    Path((pool, namespace, queue, job)): JobPath,
) -> Result<(Arc<Pool>, QueueKey, JobId), PageError> {
    let (pool, queue) = named(visit, Path((pool, namespace, queue)))?;
    Ok((pool, queue, job_id(&job)?))
}

pub(in super::super) async fn show(visit: Visit, path: JobPath) -> Response {
    match job_named(&visit, path) {
        Ok((pool, queue, id)) => {
            let render = move |visit| page(visit, Arc::clone(&pool), queue.clone(), id);
            visit.show(render).await
        }
        Err(error) => error.into_response(),
    }
}

async fn page(
    visit: Arc<Visit>,
    pool: Arc<Pool>,
    queue: QueueKey,
    id: JobId,
) -> Result<Page, PageError> {
    let explained = explain(&pool, &queue, id.into()).await?.ok_or(GONE)?;
    let found = pool
        .peek_job(&queue, JobReference::from(id))
        .await?
        .ok_or(GONE)?;
    let failures = pool.history(&found.job).await?;
    let max_attempts = pool.max_attempts(&queue, &found.job);
    let job = details(&queue, &found.job, max_attempts, &failures);
    let live = html! {
        p.summary { (state_badge(explained.state)) " " (explained.summary) }
        (facts(&explained))
        (all(&job))
        (timeline(&job))
    };
    Ok(Page {
        title: format!("Job {id}"),
        place: Some((pool.name.to_string(), Section::Queues)),
        trail: trail(&pool.name, &queue),
        seen: None,
        blocks: vec![
            PageBlock::live("job", live),
            PageBlock::fixed("actions", actions(&visit, &pool, &queue, &job)),
        ],
    })
}

fn facts(explained: &JobExplanation) -> Markup {
    html! {
        @if !explained.facts.is_empty() {
            ul { @for fact in &explained.facts { li { (text::shortened(&fact.text, 1000)) } } }
        }
    }
}

fn all(job: &JobDetails) -> Markup {
    html! {
        dl {
            @if let Some(key) = &job.key { dt { "Key" } dd { code { (key.as_str()) } } }
            @if let Some(group) = &job.group { dt { "Group" } dd { code { (group.as_str()) } } }
            @if !job.priority.is_lowest() { dt { "Priority" } dd { (job.priority.get()) } }
            dt { "Published" } dd { (text::time(job.created_at)) }
            @if let Some(at) = job.run_at { dt { "Due" } dd { (text::time(at)) } }
            @if let Some(at) = job.lease_until { dt { "Lease ends" } dd { (text::time(at)) } }
            dt { "Attempt" } dd { (job.attempt) ", at most " (job.max_attempts) }
            dt { "Failures, losses" } dd { (job.failures) ", " (job.losses) }
            @if let Some(reason) = job.reason { dt { "Dead because" } dd { (reason_text(reason)) } }
            @for (name, value) in &job.attributes.0 { dt { code { (name) } } dd { (text::shortened(value, 1000)) } }
        }
    }
}

fn timeline(job: &JobDetails) -> Markup {
    html! {
        h2 { "Attempts that ended" }
        @if job.history.is_empty() { p.hint { "None that is known." } } @else {
            ol.timeline {
                @for entry in &job.history {
                    li {
                        strong { "Attempt " (entry.attempt) } " " (text::time(entry.ended_at))
                        @match &entry.error {
                            Some(error) => pre { (error.as_str()) },
                            None => p { "Its worker was lost." }
                        }
                    }
                }
            }
        }
    }
}

fn actions(visit: &Visit, pool: &Pool, queue: &QueueKey, job: &JobDetails) -> Markup {
    let address = links::job(&pool.name, queue, job.id);
    let verb = |name: &str, title: &str, fields: Markup| {
        html! {
            form.row method="post" action=(address) {
                (visit.token.field())
                (fields)
                button name="do" value=(name) { (title) }
            }
        }
    };
    let waits = matches!(job.state, JobState::Delayed | JobState::Ready);
    html! {
        h2 { "Actions" }
        @if job.state != JobState::Done {
            p { a.button href={ (address) "/payload" } { "Show the payload (" (text::bytes(job.payload_bytes)) ")" } }
        }
        @if visit.may(AccountRole::Operate) {
            @if job.state == JobState::Delayed { (verb("promote", "Run now", html! {})) }
            @if waits {
                (verb("change", "Change", html! { label { "Due in, as 5m" input name="delay" required; } }))
                (verb("cancel", "Cancel", html! {}))
            }
            @if job.state == JobState::Leased {
                (verb("cancel", "Cancel", html! {
                    label { "Its worker"
                        select name="running" {
                            option value="ask" { "is asked to stop" }
                            option value="revoke" { "loses it at once" }
                        }
                    }
                }))
            }
            @if job.state == JobState::Dead { (verb("respawn", "Respawn", html! {})) }
            @if job.state == JobState::Dead && visit.may(AccountRole::Admin) { (verb("purge", "Delete", html! {})) }
        }
    }
}

/// `POST`: acts on the job.
pub(in super::super) async fn act(
    visit: Visit,
    path: JobPath,
    body: Body,
) -> Result<Response, PageError> {
    let (pool, queue, id) = job_named(&visit, path)?;
    let form = visit.read_form(body).await?;
    let verb = form.get("do").unwrap_or_default();
    visit.need(match verb {
        "purge" => AccountRole::Admin,
        _ => AccountRole::Operate,
    })?;
    let act_on = async |act: ActBody, done| {
        let changed = pool.act_on_job(&queue, id, &act).await?;
        Ok(if changed { done } else { Done::Nothing })
    };
    let if_running = match form.get("running") {
        Some("revoke") => IfRunning::Revoke,
        Some(_) => IfRunning::Ask,
        None => IfRunning::Refuse,
    };
    let done = match verb {
        "promote" => act_on(ActBody::new(ActName::Promote), Done::Promoted).await,
        "respawn" => act_on(ActBody::new(ActName::Respawn), Done::Respawned).await,
        "purge" => act_on(ActBody::new(ActName::Purge), Done::Purged).await,
        "change" => {
            let change = Some(changed(&form)?);
            let act = ActBody {
                change,
                ..ActBody::new(ActName::Change)
            };
            act_on(act, Done::Changed).await
        }
        "cancel" => cancel(&pool, &queue, id, if_running).await,
        _ => {
            return Err(PageError::Invalid(
                "There is no such action for a job.".to_owned(),
            ));
        }
    };
    let target = ActionTarget::Queue(&pool.name, &queue);
    let detail = match verb {
        "change" => format!("{id} delay={}", form.get("delay").unwrap_or_default()),
        "cancel" => format!("{id} running={}", if_running.as_str()),
        _ => id.to_string(),
    };
    let done = done.inspect_err(|_| visit.log_unknown(verb, target, &detail))?;
    if done != Done::Nothing {
        visit.log(verb, target, &detail);
    }
    // A job that is gone has no page.
    let link = match done {
        Done::Cancelled | Done::Purged => links::jobs(&pool.name, &queue),
        _ => links::job(&pool.name, &queue, id),
    };
    Ok(then(&link, done).into_response())
}

/// The change that a form wants, checked as the native API checks it.
fn changed(form: &SubmittedForm) -> Result<JobChange, PageError> {
    let body = json!({"delay": form.get("delay")}).to_string();
    let read = read_body(body.as_bytes(), &ConfigurableLimits::default());
    read.map_err(|invalid| PageError::Invalid(invalid.detail))
}

async fn cancel(
    pool: &Arc<Pool>,
    queue: &QueueKey,
    id: JobId,
    if_running: IfRunning,
) -> Result<Done, EngineError> {
    Ok(match pool.cancel(queue, id.into(), if_running).await? {
        CancelOutcome::Done { .. } => Done::Cancelled,
        CancelOutcome::Requested(_) => Done::CancelRequested,
        CancelOutcome::AlreadyGone | CancelOutcome::Leased | CancelOutcome::AlreadyDone(_) => {
            Done::Nothing
        }
    })
}

/// `GET …/payload`
pub(in super::super) async fn payload(visit: Visit, path: JobPath) -> Result<Response, PageError> {
    let (pool, queue, id) = job_named(&visit, path)?;
    let found = pool.peek_job(&queue, JobReference::from(id)).await?;
    let job = found.ok_or(GONE)?.job;
    if job.state == JobState::Done {
        return Err(PageError::NotFound(
            "The job is done: its payload is not kept.",
        ));
    }
    let address = links::job(&pool.name, &queue, id);
    let mut trail = trail(&pool.name, &queue);
    trail.push((format!("Job {id}"), address));
    Ok(visit.write(&Page {
        title: format!("Payload of {id}"),
        place: Some((pool.name.to_string(), Section::Queues)),
        trail,
        seen: None,
        blocks: vec![PageBlock::fixed("payload", payload_block(&job))],
    }))
}

fn payload_block(job: &Job) -> Markup {
    let content_type = job.content_type();
    html! {
        p { (content_type.as_str()) ", " (text::bytes(job.body.len() as u64)) }
        @match std::str::from_utf8(&job.body) {
            Ok(written) => pre.payload tabindex="0" { (text::shortened(&indented(written), PAYLOAD_CHARACTERS)) },
            Err(_) => {
                p.hint { "It is no text. Its first bytes:" }
                pre.payload tabindex="0" { (hex(&job.body)) }
            }
        }
    }
}

/// JSON with a line for each field; any other text as it is.
fn indented(written: &str) -> String {
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(written);
    let pretty = parsed
        .ok()
        .and_then(|json| serde_json::to_string_pretty(&json).ok());
    pretty.unwrap_or_else(|| written.to_owned())
}

/// The first bytes, 16 in a line.
fn hex(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(PAYLOAD_BYTES)];
    let line = |line: &[u8]| {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits.join(" ")
    };
    shown.chunks(16).map(line).collect::<Vec<_>>().join("\n")
}
