//! `/ui/relays/NAMESPACE/RELAY`: one relay: its queue, the daemons that run it, its settings without secrets, and a
//! pause.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use tidegate_core::v1::relay::{RelayConfig, RelayHealth, RelayStatus, worker_name};
use tidegate_core::v1::values::Timestamp;
use tidegate_engine::{Engine, LEASES_STORED_MAX, ListedWorker};
use tidegate_store::{NamespacedName, Row, TableSetOutcome};

use super::super::action::{ActionTarget, Done, then};
use super::super::error::PageError;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::{Visit, namespace as namespace_of};
use super::super::{links, text};
use super::parts::{changed_news, is_stale, oldest, revision_fields, revision_text};
use super::relays::{find_queues, source_queue, source_text, state, status_of};
use crate::config::{AccountRole, DEFAULT_POOL};
use crate::relay_status::relay_report;

const GONE: PageError =
    PageError::NotFound("There is no such relay: it is deleted, or it was never set.");

const UNREADABLE: &str =
    "The stored relay is damaged, or of a later release. Set it again, with its secrets.";

/// How many workers with similar names are looked at.
const WORKERS_MAX: usize = 100;

type RelayPath = Path<(String, String)>;

fn named(Path((namespace, name)): RelayPath) -> Result<NamespacedName, PageError> {
    let namespace = namespace_of(&namespace)?;
    Ok(NamespacedName { namespace, name })
}

async fn find(visit: &Visit, key: &NamespacedName) -> Result<Row<RelayConfig>, PageError> {
    let found = visit.dashboard.app.engine.relays.get(key).await?;
    found.ok_or(GONE)
}

pub(in super::super) async fn show(visit: Visit, path: RelayPath) -> Response {
    match named(path) {
        Ok(key) => {
            let render = move |visit| page(visit, key.clone());
            visit.show(render).await
        }
        Err(error) => error.into_response(),
    }
}

async fn page(visit: Arc<Visit>, key: NamespacedName) -> Result<Page, PageError> {
    let relay = find(&visit, &key).await?;
    let revision = revision_text(relay.revision);
    let engine = &visit.dashboard.app.engine;
    let (live, fixed) = match &relay.value {
        Ok(config) => {
            let report = relay_report(engine, &key).await?;
            let status = status_of(&relay, report.as_ref());
            (
                live_block(engine, &key, config, status).await?,
                settings_block(config),
            )
        }
        Err(_) => (html! { p.problem role="alert" { (UNREADABLE) } }, html! {}),
    };
    Ok(Page {
        title: format!("Relay {key}"),
        place: Some((DEFAULT_POOL.to_owned(), Section::Relays)),
        trail: vec![("Relays".to_owned(), links::RELAYS.to_owned())],
        blocks: vec![
            PageBlock::live("state", live),
            PageBlock::fixed("settings", fixed),
            PageBlock::fixed("actions", actions(&visit, &key, &relay)),
            changed_news(&visit, "The relay", &revision, &links::relay(&key)),
        ],
        seen: Some(revision),
    })
}

async fn live_block(
    engine: &Engine,
    key: &NamespacedName,
    config: &RelayConfig,
    status: Option<RelayStatus>,
) -> Result<Markup, PageError> {
    let source = source_queue(key, config);
    let mut queues = find_queues(engine, &source.iter().cloned().collect()).await;
    let found = source.as_ref().and_then(|queue| queues.remove(queue));
    // Jobs of other servers are not leased here.
    let worker = match source.is_some() {
        true => worker_of(engine, key).await?,
        false => None,
    };
    Ok(html! {
        dl {
            dt { "State" } dd {
                (state(status.as_ref()))
                @if let Some(status) = &status { (since(status)) }
            }
            @if let Some(error) = status.as_ref().and_then(|status| status.last_error.as_ref()) {
                dt { "Last error" } dd { (error.text) " " (text::time(error.at)) }
            }
            dt { "From" } dd { (source_text(config, source.as_ref(), found.as_ref())) }
            dt { "To" } dd { (config.sink.summary()) }
            @if let Some(found) = &found {
                dt { "Jobs that wait" } dd {
                    (text::number(found.figures.stats.ready)) " ready, the oldest for " (oldest(&found.figures)) ", "
                    (text::number(found.figures.stats.dead)) " dead"
                }
            }
            dt { "Daemons" } dd {
                @match &worker {
                    None if source.is_none() => "not known: its jobs are on another server",
                    None => "none has asked for jobs of this relay in the last minute",
                    Some(worker) => {
                        @if worker.waits { "wait for jobs" }
                        @else { "asked for jobs " (text::time(Timestamp::saturating(worker.seen_at_ms))) }
                        ", hold " @if worker.leases.len() >= LEASES_STORED_MAX { "at least " } (text::jobs(worker.leases.len() as u64))
                    }
                }
            }
        }
        p.hint { "The numbers of the queue are as old as the metrics." }
    })
}

/// Since when it has this state.
fn since(status: &RelayStatus) -> Markup {
    html! {
        @match (status.state, status.since) {
            (RelayHealth::Unserved, None) => " no tidegate-relayd has reported this relay since it was set",
            (RelayHealth::Unserved, Some(at)) => { " the last report of a tidegate-relayd was at " (text::time(at)) }
            (_, Some(at)) => { " since " (text::time(at)) }
            (_, None) => {}
        }
    }
}

/// The relay as a worker of its namespace.
async fn worker_of(
    engine: &Engine,
    key: &NamespacedName,
) -> Result<Option<ListedWorker>, PageError> {
    let name = worker_name(&key.name);
    // A list begins behind a name: this name is before the name of the relay, with few others in between.
    let mut before = name.clone();
    before.pop();
    for pool in engine.pools() {
        let page = pool.workers(&key.namespace, &before, WORKERS_MAX).await?;
        let found = page.workers.into_iter().find(|worker| worker.name == name);
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The settings besides both ends. URLs and secrets are not among them.
fn settings_block(config: &RelayConfig) -> Markup {
    let secrets = config.secret_names();
    html! {
        h2 { "Settings" }
        dl {
            dt { "Secrets that are set" } dd { @if secrets.is_empty() { "none" } @else { (secrets.join(", ")) } }
            dt { "Jobs held at a time" } dd { (text::number(config.concurrency as u64)) }
            dt { "Jobs a call" } dd { (text::number(config.batch as u64)) }
            dt { "Lease" } dd { (text::duration(config.lease.as_ms())) }
            dt { "Time limit of a call" } dd { (text::duration(config.sink.time_limit().as_ms())) }
            dt { "Pauses if the receiver is unavailable" } dd {
                "after " (config.breaker_failures) " calls, for " (text::duration(config.breaker_pause.as_ms()))
                " to " (text::duration(config.breaker_pause_max.as_ms()))
            }
        }
    }
}

fn actions(visit: &Visit, key: &NamespacedName, relay: &Row<RelayConfig>) -> Markup {
    let verb = relay.value.as_ref().map(|config| match config.paused {
        true => ("resume", "Resume the relay"),
        false => ("pause", "Pause the relay"),
    });
    html! {
        @if let (Ok((name, title)), true) = (verb, visit.may(AccountRole::Operate)) {
            h2 { "Actions" }
            form.row method="post" action=(links::relay(key)) {
                (revision_fields(visit, relay.revision))
                button name="do" value=(name) { (title) }
            }
        }
    }
}

/// `POST`: pauses or resumes the relay.
pub(in super::super) async fn act(
    visit: Visit,
    path: RelayPath,
    body: Body,
) -> Result<Response, PageError> {
    let key = named(path)?;
    let form = visit.read_form(body).await?;
    let verb = form.get("do").unwrap_or_default();
    let done = match verb {
        "pause" => Done::RelayPaused,
        "resume" => Done::RelayResumed,
        _ => {
            return Err(PageError::Invalid(
                "There is no such action for a relay.".to_owned(),
            ));
        }
    };
    visit.need(AccountRole::Operate)?;
    let relay = find(&visit, &key).await?;
    let address = links::relay(&key);
    if is_stale(&form, relay.revision) {
        return Ok(then(&address, Done::Stale).into_response());
    }
    let unreadable = |_| PageError::Invalid(UNREADABLE.to_owned());
    let mut config = relay.value.map_err(unreadable)?;
    config.paused = done == Done::RelayPaused;
    let relays = &visit.dashboard.app.engine.relays;
    let target = ActionTarget::Relay(&key);
    let set = relays.set(&key, Some(&config), relay.revision).await;
    let set = set.inspect_err(|_| visit.log_unknown(verb, target, ""));
    if !matches!(set?, TableSetOutcome::Done(_)) {
        return Ok(then(&address, Done::Stale).into_response());
    }
    visit.log(verb, target, "");
    Ok(then(&address, done).into_response())
}
