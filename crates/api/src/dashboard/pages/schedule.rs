//! `/ui/POOL/schedules/NAMESPACE/SCHEDULE`: one schedule: its ticks, its jobs, and its actions.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use tidegate_core::schedule::Overlap;
use tidegate_core::v1::job::{ActBody, ActName};
use tidegate_core::v1::schedule::Schedule;
use tidegate_core::v1::values::{PageSize, Timestamp};
use tidegate_core::{JobState, QueueKey};
use tidegate_engine::{ActCursor, Pool};
use tidegate_store::{
    NamespacedName, Row, SCHEDULE_ATTRIBUTE, ScheduleDefinition, ScheduleTicks, TableSetOutcome,
    schedule_job_key,
};

use super::super::action::{ActionTarget, Done, then};
use super::super::error::PageError;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::{Visit, namespace as namespace_of};
use super::super::{links, text};
use super::parts::{changed_news, is_stale, revision_fields, revision_text};
use super::schedules::times;
use crate::config::AccountRole;

/// How many of the next ticks are shown.
const TICKS_SHOWN: usize = 5;

const GONE: PageError =
    PageError::NotFound("There is no such schedule: it is deleted, or it was never set.");

type SchedulePath = Path<(String, String, String)>;

fn named(
    visit: &Visit,
    Path((pool, namespace, name)): SchedulePath,
) -> Result<(Arc<Pool>, NamespacedName), PageError> {
    let namespace = namespace_of(&namespace)?;
    Ok((visit.pool(&pool)?, NamespacedName { namespace, name }))
}

async fn find(pool: &Pool, key: &NamespacedName) -> Result<Row<ScheduleDefinition>, PageError> {
    pool.schedules.get(key).await?.ok_or(GONE)
}

pub(in super::super) async fn show(visit: Visit, path: SchedulePath) -> Response {
    match named(&visit, path) {
        Ok((pool, key)) => {
            let render = move |visit| page(visit, Arc::clone(&pool), key.clone());
            visit.show(render).await
        }
        Err(error) => error.into_response(),
    }
}

async fn page(visit: Arc<Visit>, pool: Arc<Pool>, key: NamespacedName) -> Result<Page, PageError> {
    let stored = find(&pool, &key).await?;
    let queue = stored.queue(&key.namespace);
    let ticks = match &queue {
        Some(queue) => pool.schedules.ticks(&key, queue).await?,
        None => ScheduleTicks::default(),
    };
    let address = links::schedule(&pool.name, &key);
    let (live, fixed) = match (&stored.value, &queue) {
        (Ok(definition), Some(queue)) => (
            tick_block(definition, ticks),
            definition_block(&pool, &key, queue, definition),
        ),
        _ => (
            html! { p.problem role="alert" {
                "The stored schedule cannot be read: it is damaged, or of a later release. It publishes nothing. Set it again, or delete it."
            } },
            html! {},
        ),
    };
    let revision = revision_text(stored.revision);
    Ok(Page {
        title: format!("Schedule {key}"),
        place: Some((pool.name.to_string(), Section::Schedules)),
        trail: trail(&pool, &key),
        blocks: vec![
            PageBlock::live("ticks", live),
            PageBlock::fixed("definition", fixed),
            PageBlock::fixed("actions", actions(&visit, &pool, &key, &stored)),
            changed_news(&visit, "The schedule", &revision, &address),
        ],
        seen: Some(revision),
    })
}

/// The pages above a page about a schedule.
fn trail(pool: &Pool, key: &NamespacedName) -> Vec<(String, String)> {
    vec![("Schedules".to_owned(), list_link(pool, key))]
}

fn list_link(pool: &Pool, key: &NamespacedName) -> String {
    let pairs = [("namespace", key.namespace.as_str())];
    links::with_query(&links::schedules(&pool.name), pairs)
}

fn tick_block(definition: &ScheduleDefinition, ticks: ScheduleTicks) -> Markup {
    let rule = match definition.times.rule() {
        Ok(rule) => rule,
        Err(invalid) => {
            return html! { p.problem role="alert" { "It has no ticks: " (invalid) ". Set it again, or delete it." } };
        }
    };
    let after = |tick_ms: &u64| rule.next_after(*tick_ms);
    let next = std::iter::successors(ticks.next_ms, after);
    let next: Vec<u64> = next.take(TICKS_SHOWN).collect();
    html! {
        h2 { "Next ticks" }
        @if next.is_empty() {
            p { @if definition.times.paused { "None: it is paused." } @else { "None: it has ended." } }
        } @else {
            ol { @for tick in &next { li { (text::time(Timestamp::saturating(*tick))) } } }
        }
        p {
            "Last tick, whose job was published or left out: "
            @match ticks.last_ms {
                Some(tick_ms) => (text::time(Timestamp::saturating(tick_ms))),
                None => "none yet"
            }
        }
    }
}

fn definition_block(
    pool: &Pool,
    key: &NamespacedName,
    queue: &QueueKey,
    definition: &ScheduleDefinition,
) -> Markup {
    let attribute = attribute_of(key);
    let jobs = [("attribute", attribute.as_str())];
    let jobs = links::with_query(&links::jobs(&pool.name, queue), jobs);
    let shown: Result<serde_json::Value, _> = serde_json::from_str(definition.shown.get());
    let shown = shown.and_then(|value| serde_json::to_string_pretty(&value));
    html! {
        h2 { "Definition" }
        dl {
            dt { "Times" } dd { (times(&definition.times)) }
            dt { "Queue" } dd { a href=(links::queue(&pool.name, queue)) { (queue) } }
            dt { "Its jobs" } dd {
                a href=(jobs) { "List them" }
                @if definition.overlap != Overlap::Allow { ", with the key " code { (schedule_job_key(key)) } }
            }
        }
        pre.definition tabindex="0" { (shown.as_deref().unwrap_or(definition.shown.get())) }
    }
}

/// The attribute of its jobs, as a filter has it.
fn attribute_of(key: &NamespacedName) -> String {
    format!("{SCHEDULE_ATTRIBUTE}={}", key.name)
}

fn actions(
    visit: &Visit,
    pool: &Pool,
    key: &NamespacedName,
    stored: &Row<ScheduleDefinition>,
) -> Markup {
    let pause = stored.value.as_ref().ok();
    let pause = pause.map(|definition| match definition.times.paused {
        true => ("resume", "Resume the schedule"),
        false => ("pause", "Pause the schedule"),
    });
    html! {
        @if visit.may(AccountRole::Operate) {
            h2 { "Actions" }
            form.row method="post" action=(links::schedule(&pool.name, key)) {
                (revision_fields(visit, stored.revision))
                @if let Some((name, title)) = pause { button name="do" value=(name) { (title) } }
                @if visit.may(AccountRole::Admin) { button name="do" value="delete" { "Delete the schedule" } }
            }
        }
    }
}

/// `POST`: pauses, resumes or deletes the schedule.
pub(in super::super) async fn act(
    visit: Visit,
    path: SchedulePath,
    body: Body,
) -> Result<Response, PageError> {
    let (pool, key) = named(&visit, path)?;
    let form = visit.read_form(body).await?;
    let verb = form.get("do").unwrap_or_default();
    let (role, done) = match verb {
        "pause" => (AccountRole::Operate, Done::SchedulePaused),
        "resume" => (AccountRole::Operate, Done::ScheduleResumed),
        "delete" => (AccountRole::Admin, Done::ScheduleDeleted),
        _ => {
            return Err(PageError::Invalid(
                "There is no such action for a schedule.".to_owned(),
            ));
        }
    };
    visit.need(role)?;
    let stored = find(&pool, &key).await?;
    let address = links::schedule(&pool.name, &key);
    if is_stale(&form, stored.revision) {
        return Ok(then(&address, Done::Stale).into_response());
    }
    if done == Done::ScheduleDeleted && form.get("step") != Some("run") {
        return confirm(&visit, &pool, &key, &stored).await;
    }
    let outcome = match done {
        Done::ScheduleDeleted => remove(&pool, &key, &stored).await,
        done => set_paused(&pool, &key, stored, done == Done::SchedulePaused).await,
    };
    let target = ActionTarget::Schedule(&pool.name, &key);
    // The definition may have been changed, although its tick could not be.
    let outcome = outcome.inspect_err(|error| {
        if let PageError::Engine(_) = error {
            visit.log_unknown(verb, target, "");
        }
    })?;
    if !matches!(outcome, TableSetOutcome::Done(_)) {
        return Ok(then(&address, Done::Stale).into_response());
    }
    visit.log(verb, target, "");
    // One that is gone has no page.
    let link = match done {
        Done::ScheduleDeleted => list_link(&pool, &key),
        _ => address,
    };
    Ok(then(&link, done).into_response())
}

async fn remove(
    pool: &Pool,
    key: &NamespacedName,
    stored: &Row<ScheduleDefinition>,
) -> Result<TableSetOutcome, PageError> {
    let queue = stored.queue(&key.namespace);
    let removed = pool.schedules.remove(key, queue.as_ref(), stored.revision);
    Ok(removed.await?)
}

/// Sets the same definition, paused or not, if it still has its revision.
async fn set_paused(
    pool: &Pool,
    key: &NamespacedName,
    stored: Row<ScheduleDefinition>,
    paused: bool,
) -> Result<TableSetOutcome, PageError> {
    let unreadable = || {
        let detail = "The stored schedule cannot be read: set it again through the API.";
        PageError::Invalid(detail.to_owned())
    };
    let queue = stored.queue(&key.namespace).ok_or_else(unreadable)?;
    let revision = stored.revision.ok_or_else(unreadable)?;
    let mut definition = stored.value.map_err(|_| unreadable())?;
    let shown: Result<Schedule, _> = serde_json::from_str(definition.shown.get());
    let mut shown = shown.map_err(|_| unreadable())?;
    shown.paused = paused;
    definition.times.paused = paused;
    definition.shown = serde_json::value::to_raw_value(&shown).map_err(|_| unreadable())?;
    let set = pool.schedules.set(key, &queue, &definition, Some(revision));
    Ok(set.await?)
}

/// Asks before a schedule is deleted, with the number of its jobs that wait.
async fn confirm(
    visit: &Visit,
    pool: &Pool,
    key: &NamespacedName,
    stored: &Row<ScheduleDefinition>,
) -> Result<Response, PageError> {
    let waiting = match stored.queue(&key.namespace) {
        Some(queue) => Some(count_waiting(pool, key, &queue).await?),
        None => None,
    };
    let address = links::schedule(&pool.name, key);
    let content = html! {
        p { "It publishes no more jobs then. Its definition is lost." }
        @if let Some((jobs, is_whole)) = waiting {
            p #count {
                @if !is_whole { "At least " }
                strong { (text::jobs(jobs)) } " that it has published "
                @if jobs == 1 { "waits and stays." } @else { "wait and stay." }
            }
        }
        form.row method="post" action=(address) {
            (revision_fields(visit, stored.revision))
            input type="hidden" name="step" value="run";
            button.danger name="do" value="delete" { "Delete it" }
            a.button href=(address) { "Leave it" }
        }
    };
    let mut trail = trail(pool, key);
    trail.push((key.to_string(), address));
    Ok(visit.write(&Page {
        title: format!("Delete the schedule {key}"),
        place: Some((pool.name.to_string(), Section::Schedules)),
        trail,
        seen: None,
        blocks: vec![PageBlock::fixed("confirm", content)],
    }))
}

/// The number of jobs of a schedule that are delayed or ready, and whether all were counted.
async fn count_waiting(
    pool: &Pool,
    key: &NamespacedName,
    queue: &QueueKey,
) -> Result<(u64, bool), PageError> {
    let pairs = [("attribute".to_owned(), attribute_of(key))];
    let filter = super::jobs::read_filter(&pairs);
    let mut act = ActBody {
        filter: filter.map_err(|invalid| PageError::Invalid(invalid.detail))?,
        dry_run: true,
        limit: PageSize::MAX,
        ..ActBody::new(ActName::Cancel)
    };
    let (mut waiting, mut is_all) = (0, true);
    for state in [JobState::Delayed, JobState::Ready] {
        act.filter.state = Some(state);
        let counted = pool.act(queue, &act, ActCursor::default()).await?;
        waiting += counted.matched;
        is_all &= counted.next.is_none();
    }
    Ok((waiting, is_all))
}
