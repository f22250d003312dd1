//! `/ui/POOL/system`: pumps and the buckets that they lead, lanes, servers, and how to audit.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use tidegate_core::v1::cold::ColdTierView;
use tidegate_engine::{Pool, PoolOverview};
use tidegate_store::{ServerFigures, ServerLeaders};

use super::super::error::PageError;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::Visit;
use super::super::{links, text};
use crate::cold_status::cold_status;

pub(in super::super) async fn show(visit: Visit, Path(pool): Path<String>) -> Response {
    visit.show_pool(&pool, page).await
}

async fn page(_: Arc<Visit>, pool: Arc<Pool>) -> Result<Page, PageError> {
    let servers = pool.leaders().await?;
    let (sizes, figures_of_servers, cold) =
        tokio::join!(pool.sizes(), pool.server_figures(), cold_status(&pool));
    let overview = sizes.map(|sizes| sizes.overview_of(|_| false));
    let live = html! {
        h2 { "Pumps" }
        @for server in &servers { (pumps(server)) }
        @if let Some(overview) = &overview { (figures(overview, &figures_of_servers)) }
        @if let Some(view) = &cold { (cold_tier(view)) }
        (lanes(&pool))
        h2 { "Audit" }
        p {
            "An audit compares all that is stored, and can repair it while everything runs: "
            code { "tidegate-pumpd audit" }
        }
        p.hint { "This is tidegate-api " (env!("CARGO_PKG_VERSION")) "." }
    };
    Ok(Page {
        title: format!("System of {}", pool.name),
        place: Some((pool.name.to_string(), Section::System)),
        trail: vec![],
        seen: None,
        blocks: vec![PageBlock::live("system", live)],
    })
}

/// The pumps of a server, each with the number of its buckets.
fn pumps(server: &ServerLeaders) -> Markup {
    let mut buckets: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for pump in &server.pumps {
        buckets.entry(pump).or_default();
    }
    let mut without = 0;
    for (bucket, leader) in &server.leaders {
        match leader {
            Some(leader) => buckets.entry(leader).or_default().push(*bucket),
            None => without += 1,
        }
    }
    html! {
        h3 { "Redis at " (server.address) }
        @if without > 0 {
            p.problem role="alert" {
                (without) " of " (server.leaders.len())
                " buckets have no pump: their delayed jobs do not become ready. Start tidegate-pumpd, or look into its log."
            }
        }
        @if !buckets.is_empty() {
            div.wide { table {
                thead { tr { th scope="col" { "Pump" } th.number scope="col" { "Leads" } th scope="col" { "Buckets" } } }
                tbody {
                    @for (pump, led) in &buckets {
                        tr {
                            td { (pump) @if !server.pumps.iter().any(|live| live == pump) { " " span.badge.warn { "gone" } } }
                            td.number { (led.len()) }
                            td { (ranges(led)) }
                        }
                    }
                }
            } }
        }
    }
}

/// Numbers in their order, as in `0–3, 7`.
fn ranges(numbers: &[u16]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let runs = runs.map(|run| match run {
        [] => String::new(),
        [only] => only.to_string(),
        [first, .., last] => format!("{first}–{last}"),
    });
    runs.collect::<Vec<_>>().join(", ")
}

fn figures(overview: &PoolOverview, servers: &[ServerFigures]) -> Markup {
    html! {
        h2 { "Servers" }
        dl {
            dt { "Earliest timer is overdue for" } dd { (text::duration(overview.overdue_ms)) }
            dt { "Buckets that could not be read" } dd { (overview.missing_buckets) }
            @for server in servers {
                dt { "Memory" } dd {
                    (text::bytes(server.used_mem_bytes))
                    @if server.max_mem_bytes > 0 { " of " (text::bytes(server.max_mem_bytes)) } @else { ", not limited" }
                }
                @if server.without_append_only_file > 0 {
                    dt { "Append-only file" }
                    dd { span.badge.warn { "off" } " A restart of Redis loses jobs. Set appendonly yes." }
                }
                @if server.evicting > 0 {
                    dt { "Eviction" }
                    dd { span.badge.warn { "on" } " Redis may delete jobs at its memory limit. Set maxmemory-policy noeviction." }
                }
                dt { "Connections" } dd { (text::number(server.connections)) }
                dt { "Keys" } dd { (text::number(server.total_keys)) }
            }
        }
    }
}

fn cold_tier(view: &ColdTierView) -> Markup {
    html! {
        h2 { "Cold tier" }
        @if let Some(problem) = &view.problem {
            p.problem role="alert" {
                "Payloads of far jobs cannot be read: " (problem) ". Jobs that become due wait."
            }
        }
        dl {
            dt { "Payloads in the object store only" } dd { (text::number(view.frozen_payloads)) }
            dt { "Payloads that are back, and kept for a while" } dd { (text::number(view.thawed_payloads)) }
            dt { "Segments" } dd { (text::number(view.segments)) ", " (text::bytes(view.bytes)) }
            @if let Some(until) = view.back_until {
                dt { "Back are the payloads of jobs due before" } dd { (text::time(until)) }
            }
            @match view.counted_at {
                Some(at) => { dt { "Counted" } dd { (text::time(at)) } }
                None => { dt { "Counted" } dd { "not yet" } }
            }
        }
    }
}

fn lanes(pool: &Pool) -> Markup {
    let queues = pool.lanes.queues();
    html! {
        h2 { "Lanes" }
        @if queues.is_empty() { p.hint { "All queues have one lane." } } @else {
            div.wide { table {
                thead { tr {
                    th scope="col" { "Queue" } th.number scope="col" { "Open" } th.number scope="col" { "In use" }
                } }
                tbody {
                    @for queue in &queues {
                        tr {
                            td { a href=(links::queue(&pool.name, queue)) { (queue) } }
                            td.number { (pool.lanes.open(queue)) }
                            td.number { (pool.lanes.used(queue)) }
                        }
                    }
                }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_written_as_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0–3, 7, 9–10");
    }
}
