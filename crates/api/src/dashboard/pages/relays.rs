//! `/ui/relays`: the relays of all namespaces that are set through the API. No page shows their secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::response::Response;
use maud::{Markup, html};
use tidegate_core::v1::relay::{RelayConfig, RelayHealth, RelaySourceConfig, RelayStatus};
use tidegate_core::{QueueKey, QueueName};
use tidegate_engine::{Engine, QueueFigures};
use tidegate_store::{NamespacedName, Row, StoredRelayReport};

use super::super::error::PageError;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::Visit;
use super::super::{links, text};
use super::parts::oldest;
use crate::config::DEFAULT_POOL;
use crate::relay_status::relay_status;

/// The queue of a relay, the pool that has it, and its figures.
pub(super) struct RelayQueue {
    pub(super) pool: String,
    pub(super) figures: QueueFigures,
}

pub(in super::super) async fn show(visit: Visit) -> Response {
    visit.show(page).await
}

async fn page(visit: Arc<Visit>) -> Result<Page, PageError> {
    let engine = &visit.dashboard.app.engine;
    let relays = engine.relays.all().await?.by_name;
    let wanted = relays.iter().filter_map(|(key, relay)| {
        let config = relay.value.as_ref().ok()?;
        source_queue(key, config)
    });
    let queues = find_queues(engine, &wanted.collect()).await;
    let keys: Vec<NamespacedName> = relays.keys().cloned().collect();
    let reports = engine.relays.reports(&keys).await?;
    let live = html! {
        @if relays.is_empty() {
            p.hint { "No relay is set through the API. A relay is set with " code { "PUT /v1/NAMESPACE/relays/NAME" } ". Relays in files of tidegate-relayd are not known here." }
        } @else {
            div.wide.roomy role="region" tabindex="0" aria-label="Relays" { table {
                thead { tr {
                    th scope="col" { "Relay" } th scope="col" { "From" } th scope="col" { "To" } th scope="col" { "State" }
                    th.number scope="col" { "Ready" } th.number scope="col" { "Oldest ready" }
                } }
                tbody { @for ((key, relay), report) in relays.iter().zip(&reports) { (row(key, relay, report.as_ref(), &queues)) } }
            } }
        }
    };
    Ok(Page {
        title: "Relays".to_owned(),
        place: Some((DEFAULT_POOL.to_owned(), Section::Relays)),
        trail: vec![],
        seen: None,
        blocks: vec![PageBlock::live("relays", live)],
    })
}

fn row(
    key: &NamespacedName,
    relay: &Row<RelayConfig>,
    report: Option<&StoredRelayReport>,
    queues: &BTreeMap<QueueKey, RelayQueue>,
) -> Markup {
    let config = relay.value.as_ref().ok();
    let source = config.and_then(|config| source_queue(key, config));
    let found = source.as_ref().and_then(|queue| queues.get(queue));
    html! {
        tr {
            td { a href=(links::relay(key)) { (key) } }
            td { @if let Some(config) = config { (source_text(config, source.as_ref(), found)) } }
            td { @if let Some(config) = config { (config.sink.summary()) } }
            td { (state(status_of(relay, report).as_ref())) }
            td.number { @match found { Some(found) => (text::number(found.figures.stats.ready)), None => "–" } }
            td.number { @match found { Some(found) => (oldest(&found.figures)), None => "–" } }
        }
    }
}

/// The state of a relay; `None` for a relay that cannot be read.
pub(super) fn state(status: Option<&RelayStatus>) -> Markup {
    html! {
        @match status.map(|status| status.state) {
            None => span.badge.warn { "cannot be read" },
            Some(RelayHealth::Running) => span.badge.state-ready { "running" },
            Some(RelayHealth::Failing) => span.badge.state-dead { "failing" },
            Some(RelayHealth::Refused) => span.badge.state-dead { "refused" },
            Some(RelayHealth::Paused) => span.badge.warn { "paused" },
            Some(RelayHealth::Unserved) => span.badge.warn { "no daemon" },
        }
    }
}

/// The state of a relay as it was read; `None` for a relay that cannot be read.
pub(super) fn status_of(
    relay: &Row<RelayConfig>,
    report: Option<&StoredRelayReport>,
) -> Option<RelayStatus> {
    let (config, revision) = (relay.value.as_ref().ok()?, relay.revision?);
    Some(relay_status(config, &revision.to_string(), report))
}

/// Where the jobs of a relay come from, with a link to a queue of this deployment.
pub(super) fn source_text(
    config: &RelayConfig,
    queue: Option<&QueueKey>,
    found: Option<&RelayQueue>,
) -> Markup {
    let pool = found.map_or(DEFAULT_POOL, |found| found.pool.as_str());
    html! {
        @match queue {
            Some(queue) => { "queue " a href=(links::queue(pool, queue)) { (queue) } }
            None => (config.source.summary())
        }
    }
}

/// The queue of this deployment from which a relay takes its jobs, if it does.
pub(super) fn source_queue(key: &NamespacedName, config: &RelayConfig) -> Option<QueueKey> {
    match &config.source {
        RelaySourceConfig::Queue(source) => Some(QueueKey {
            namespace: key.namespace.clone(),
            queue: QueueName::try_from(source.queue.as_str()).ok()?,
        }),
        RelaySourceConfig::Tidegate(_) | RelaySourceConfig::Lmstfy(_) => None,
    }
}

/// Of these queues, the queues that have jobs or had some, each with the first pool that has it: a relay has no pool,
/// that is up to the key of its daemon.
pub(super) async fn find_queues(
    engine: &Engine,
    wanted: &BTreeSet<QueueKey>,
) -> BTreeMap<QueueKey, RelayQueue> {
    let mut found = BTreeMap::new();
    if wanted.is_empty() {
        return found;
    }
    for pool in engine.pools() {
        let Some(sizes) = pool.sizes().await else {
            continue;
        };
        let overview = sizes.overview_of(|queue| wanted.contains(queue));
        for (queue, figures) in overview.queues {
            let pool = pool.name.to_string();
            found.entry(queue).or_insert(RelayQueue { pool, figures });
        }
    }
    found
}
