//! `/ui`: all pools at a glance.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::response::Response;
use maud::{Markup, html};
use tidegate_core::QueueKey;
use tidegate_engine::{Pool, PoolOverview, QueueFigures};
use tidegate_store::ServerFigures;

use super::super::error::PageError;
use super::super::page::{Page, PageBlock};
use super::super::visit::Visit;
use super::super::{links, text};
use super::parts::{charts, tile, tiles};

/// How many queues are shown: the queues with the most jobs.
const BUSIEST: usize = 10;

pub(in super::super) async fn show(visit: Visit) -> Response {
    visit.show(page).await
}

async fn page(visit: Arc<Visit>) -> Result<Page, PageError> {
    let mut pools = Vec::new();
    for pool in visit.dashboard.app.engine.pools() {
        let (sizes, servers) = tokio::join!(pool.sizes(), pool.server_figures());
        let overview = sizes.map(|sizes| sizes.overview_of(|_| true));
        pools.push((Arc::clone(pool), overview, servers));
    }
    let html = html! {
        @for (pool, overview, servers) in &pools {
            article {
                h2 { "Pool " (pool.name) }
                @match overview {
                    Some(overview) => (of_pool(&visit, pool, overview, servers)),
                    None => p.problem role="alert" { "Redis gave no answer." }
                }
            }
        }
    };
    Ok(Page {
        title: "Overview".to_owned(),
        place: None,
        trail: vec![],
        seen: None,
        blocks: vec![PageBlock::live("pools", html)],
    })
}

fn of_pool(
    visit: &Visit,
    pool: &Pool,
    overview: &PoolOverview,
    servers: &[ServerFigures],
) -> Markup {
    let total = overview.total();
    let queues = text::number(overview.queues.len() as u64);
    let ready = busiest(overview, |figures| figures.stats.ready);
    let dead = busiest(overview, |figures| figures.stats.dead);
    html! {
        @if overview.missing_buckets > 0 {
            p.problem role="alert" { (overview.missing_buckets) " buckets could not be read: the figures are without their queues." }
        }
        (tiles(&total, |_| None))
        ul.tiles {
            (tile("queues", &queues, Some(&links::queues(&pool.name))))
            (tile("timers overdue", &text::duration(overview.overdue_ms), Some(&links::system(&pool.name))))
            @for server in servers {
                (tile("memory of Redis", &text::bytes(server.used_mem_bytes), None))
            }
        }
        (charts(visit, pool, None, total, overview.overdue_ms))
        div.columns {
            (table("Most ready jobs", &pool.name, &ready, |figures| figures.stats.ready))
            (table("Most dead jobs", &pool.name, &dead, |figures| figures.stats.dead))
        }
    }
}

fn busiest(
    overview: &PoolOverview,
    count: impl Fn(&QueueFigures) -> u64,
) -> Vec<(&QueueKey, &QueueFigures)> {
    let with_jobs = overview.queues.iter();
    let mut queues: Vec<_> = with_jobs
        .filter(|(_, figures)| count(figures) > 0)
        .collect();
    queues.sort_by_key(|(_, figures)| Reverse(count(figures)));
    queues.truncate(BUSIEST);
    queues
}

fn table(
    title: &str,
    pool: &str,
    queues: &[(&QueueKey, &QueueFigures)],
    count: impl Fn(&QueueFigures) -> u64,
) -> Markup {
    html! {
        div {
            h3 { (title) }
            @if queues.is_empty() { p.hint { "None." } } @else {
                div.wide {
                    table {
                        thead { tr { th scope="col" { "Queue" } th.number scope="col" { "Jobs" } } }
                        tbody {
                            @for (queue, figures) in queues {
                                tr {
                                    td { a href=(links::queue(pool, queue)) { (queue) } }
                                    td.number { (text::number(count(figures))) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
