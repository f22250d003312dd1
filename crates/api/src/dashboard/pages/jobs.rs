//! `/ui/POOL/queues/NAMESPACE/QUEUE/jobs`: the jobs of a queue that match a filter, and the actions on all of them.

use std::sync::Arc;

use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use tidegate_core::limits::ConfigurableLimits;
use tidegate_core::v1::input::{QueryPair, read_query};
use tidegate_core::v1::job::{ErrorDigest, JobFilter};
use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::{JobState, QueueKey};
use tidegate_engine::{JobCursor, Pool};

use super::super::error::PageError;
use super::super::links;
use super::super::page::{Page, PageBlock, SEEN, Section};
use super::super::visit::{Visit, job_id};
use super::list_changes::{ListChanges, note_of};
use super::parts::job_table;
use super::queue::{QueuePath, named, show_queue, trail};
use crate::config::AccountRole;
use crate::v1::listed_details;

const JOBS_PER_PAGE: usize = 50;

/// The field for the jobs of a group of the dead letter: the digest of their last error.
pub(super) const ERROR_GROUP: &str = "error_group";
/// The names of the fields of a filter, as in the native API, and [`ERROR_GROUP`].
pub(super) const FILTER_FIELDS: [&str; 7] = [
    "state",
    "key_prefix",
    "attribute",
    "error_contains",
    "due_from",
    "due_before",
    ERROR_GROUP,
];

pub(in super::super) async fn show(visit: Visit, path: QueuePath) -> Response {
    match visit.parameter("id").map(str::to_owned) {
        Some(id) => to_job(&visit, path, &id).into_response(),
        None => show_queue(visit, path, page).await,
    }
}

/// A search for an id leads to the job.
fn to_job(visit: &Visit, path: QueuePath, id: &str) -> Result<Redirect, PageError> {
    let (pool, queue) = named(visit, path)?;
    Ok(Redirect::to(&links::job(&pool.name, &queue, job_id(id)?)))
}

async fn page(visit: Arc<Visit>, pool: Arc<Pool>, queue: QueueKey) -> Result<Page, PageError> {
    let pairs: Vec<(String, String)> = FILTER_FIELDS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), visit.parameter(name)?.to_owned())))
        .collect();
    let filter = read_filter(&pairs);
    let (blocks, seen) = match (&filter, visit.wants_stream) {
        // The stream of the page has this alone.
        (Ok(filter), true) => {
            let news = news(&visit, &pool, &queue, filter, &pairs).await?;
            (vec![PageBlock::news(news)], None)
        }
        (Ok(filter), false) => {
            let (list, note) = list(&visit, &pool, &queue, filter, &pairs).await?;
            let mut blocks = fixed_blocks(&visit, &pool, &queue, &pairs, list);
            blocks.push(PageBlock::news(html! {}));
            (blocks, Some(note))
        }
        (Err(invalid), _) => {
            let problem = html! { p.problem role="alert" { (invalid.detail) } };
            let blocks = fixed_blocks(&visit, &pool, &queue, &pairs, problem);
            (blocks, None)
        }
    };
    Ok(Page {
        title: format!("Jobs of {queue}"),
        place: Some((pool.name.to_string(), Section::Queues)),
        trail: trail(&pool.name, &queue),
        seen,
        blocks,
    })
}

fn fixed_blocks(
    visit: &Visit,
    pool: &Pool,
    queue: &QueueKey,
    pairs: &[(String, String)],
    list: Markup,
) -> Vec<PageBlock> {
    vec![
        PageBlock::fixed("filter", filter_form(visit, pool, queue)),
        PageBlock::fixed("jobs", list),
        PageBlock::fixed("actions", act_form(visit, pool, queue, pairs)),
    ]
}

/// Where the page of a list begins; `None` = at its beginning.
fn cursor_of(visit: &Visit) -> Result<Option<JobCursor>, PageError> {
    let cursor = visit.parameter("cursor").map(str::parse).transpose();
    cursor.map_err(|_| PageError::Invalid("This page of the list does not exist.".to_owned()))
}

/// The changes in the list since the page was loaded. The list itself stays as it was: text that a person reads does
/// not move.
async fn news(
    visit: &Visit,
    pool: &Pool,
    queue: &QueueKey,
    filter: &JobFilter,
    pairs: &[(String, String)],
) -> Result<Markup, PageError> {
    let cursor = cursor_of(visit)?;
    let begin = cursor.clone().unwrap_or_default();
    let now = pool
        .recheck_jobs(queue, filter, begin, JOBS_PER_PAGE)
        .await?;
    let continues = now.next.is_some();
    let is_part = now.jobs.len() < JOBS_PER_PAGE && continues;
    let note = visit.parameter(SEEN).unwrap_or_default();
    let changes = ListChanges::since(note, &now.jobs, continues).text();
    let cursor = cursor.map(|cursor| ("cursor".to_owned(), cursor.to_string()));
    let address = pairs.iter().chain(&cursor);
    let address = address.map(|(name, value)| (name.as_str(), value.as_str()));
    let link = links::with_query(&links::jobs(&pool.name, queue), address);
    Ok(html! {
        @if is_part {
            p { "Comparing this list with the queue would take too many calls. " a href=(link) { "Load it again" } }
        } @else if let Some(changes) = changes {
            p { "Since this list was loaded: " (changes) ". " a href=(link) { "Load it again" } }
        }
    })
}

/// A filter from the fields that were filled in.
pub(super) fn read_filter(pairs: &[(String, String)]) -> Result<JobFilter, InvalidRequest> {
    let native: Vec<QueryPair<'_>> = pairs
        .iter()
        .filter(|(name, _)| name != ERROR_GROUP)
        .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
        .collect();
    let filter: JobFilter = read_query(&native, &ConfigurableLimits::default())?;
    Ok(JobFilter {
        error_digest: read_error_group(pairs)?,
        ..filter
    })
}

/// The group of the dead letter, if a filter has one.
pub(super) fn read_error_group(
    pairs: &[(String, String)],
) -> Result<Option<ErrorDigest>, InvalidRequest> {
    let group = pairs.iter().find(|(name, _)| name == ERROR_GROUP);
    let group = group.map(|(_, digest)| digest.parse()).transpose();
    group.map_err(|_| {
        let text = format!("{ERROR_GROUP} must come from a link of the dead letter");
        InvalidRequest::of_field(ERROR_GROUP, text)
    })
}

/// The list, and the note of its jobs.
async fn list(
    visit: &Visit,
    pool: &Pool,
    queue: &QueueKey,
    filter: &JobFilter,
    pairs: &[(String, String)],
) -> Result<(Markup, String), PageError> {
    let cursor = cursor_of(visit)?;
    let is_first = cursor.is_none();
    let found = pool
        .list_jobs(queue, filter, cursor.unwrap_or_default(), JOBS_PER_PAGE)
        .await?;
    let jobs: Vec<_> = found
        .jobs
        .iter()
        .map(|listed| listed_details(pool, queue, listed))
        .collect();
    let link = links::jobs(&pool.name, queue);
    let filled: Vec<_> = pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let next = found.next.map(|next| next.to_string());
    let next = next.map(|next| {
        let pairs = filled.iter().copied().chain([("cursor", next.as_str())]);
        links::with_query(&link, pairs)
    });
    let list = html! {
        @if jobs.is_empty() {
            p.hint {
                @if next.is_some() { "None in this part of the queue: go on with the next page." }
                @else if is_first { "No job matches." }
                @else { "No further job matches." }
            }
        } @else { (job_table(&pool.name, queue, &jobs)) }
        nav.pages aria-label="Pages of the list" {
            @if !is_first { a href=(links::with_query(&link, filled.iter().copied())) { "First page" } }
            @if let Some(next) = next { a rel="next" href=(next) { "Next page" } }
        }
    };
    Ok((list, note_of(&found.jobs)))
}

fn filter_form(visit: &Visit, pool: &Pool, queue: &QueueKey) -> Markup {
    let value = |name: &str| visit.parameter(name).unwrap_or_default();
    let field = |name: &str, label: &str, example: &str| {
        html! { label { (label) ", as " (example) input name=(name) value=(value(name)); } }
    };
    html! {
        form.row method="get" action=(links::jobs(&pool.name, queue)) {
            label { "State"
                select name="state" {
                    option value="" { "any" }
                    @for state in JobState::ALL {
                        @let name = state.as_str();
                        option value=(name) selected[value("state") == name] { (name) }
                    }
                }
            }
            (field("key_prefix", "Key begins with", "order-"))
            (field("attribute", "Attribute", "tenant=a"))
            (field("error_contains", "Last error contains", "smtp: 550"))
            (field("due_from", "Due from", "2026-11-21T12:00:00Z"))
            (field("due_before", "Due before", "2026-11-21T13:00:00Z"))
            @if let Some(group) = visit.parameter(ERROR_GROUP) {
                label { input type="checkbox" name=(ERROR_GROUP) value=(group) checked; " Only the group of the dead letter" }
            }
            button { "Filter" }
        }
        form.row method="get" action=(links::jobs(&pool.name, queue)) {
            label { "Id of a job" input name="id" required; }
            button { "Show" }
        }
    }
}

/// The actions on all jobs that match.
pub(super) fn act_form(
    visit: &Visit,
    pool: &Pool,
    queue: &QueueKey,
    filter: &[(String, String)],
) -> Markup {
    if !visit.may(AccountRole::Operate) {
        return html! {};
    }
    html! {
        h2 { "Act on all jobs that match" }
        form.row method="post" action=(links::act(&pool.name, queue)) {
            (visit.token.field())
            @for (name, value) in filter { input type="hidden" name=(name) value=(value); }
            label { "Action"
                select name="do" {
                    option value="respawn" { "respawn: dead jobs are ready again" }
                    option value="promote" { "promote: delayed jobs are ready now" }
                    option value="change" { "change: delayed and ready jobs are due later" }
                    option value="cancel" { "cancel: jobs that wait are deleted" }
                    @if visit.may(AccountRole::Admin) { option value="purge" { "purge: ready or dead jobs are deleted" } }
                }
            }
            label { "Respawn: jobs per second" input name="rate_per_second" inputmode="numeric"; }
            label { "Change: due in, as 5m" input name="delay"; }
            button { "Count them first" }
        }
    }
}
