//! `/ui/POOL/queues`: the queues of a pool, by name or by their numbers of jobs.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use tidegate_core::QueueKey;
use tidegate_engine::{EngineError, Pool, QueueFigures};

use super::super::error::PageError;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::Visit;
use super::super::{links, text};
use super::parts::oldest;

const QUEUES_PER_PAGE: usize = 100;

/// The columns by which queues can be sorted; the first is the default.
const COLUMNS: [(&str, &str); 6] = [
    ("name", "Queue"),
    ("delayed", "Delayed"),
    ("ready", "Ready"),
    ("leased", "Leased"),
    ("dead", "Dead"),
    ("oldest", "Oldest ready"),
];

pub(in super::super) async fn show(visit: Visit, Path(pool): Path<String>) -> Response {
    visit.show_pool(&pool, page).await
}

async fn page(visit: Arc<Visit>, pool: Arc<Pool>) -> Result<Page, PageError> {
    let part = visit.parameter("contains").unwrap_or_default();
    let sort = visit.parameter("sort").unwrap_or(COLUMNS[0].0);
    let sizes = pool.sizes().await.ok_or(EngineError::StorageFailed)?;
    let overview = sizes.overview_of(|queue| part.is_empty() || queue.to_string().contains(part));
    let mut queues: Vec<_> = overview.queues.into_iter().collect();
    sort_by(&mut queues, sort);
    let pages = queues.len().div_ceil(QUEUES_PER_PAGE).max(1);
    let number = visit.parameter("page").and_then(|page| page.parse().ok());
    let number = number.unwrap_or(1_usize).clamp(1, pages);
    let found = queues.len() as u64;
    let begin = (number - 1) * QUEUES_PER_PAGE;
    let shown = queues.iter().skip(begin).take(QUEUES_PER_PAGE);
    let address = |sort: &str, page: usize| {
        let page = page.to_string();
        let pairs = [("contains", part), ("sort", sort), ("page", &page)];
        links::with_query(
            &links::queues(&pool.name),
            pairs.into_iter().filter(|(_, value)| !value.is_empty()),
        )
    };
    let table = html! {
        p.hint { (text::number(found)) @if found == 1 { " queue" } @else { " queues" } ", page " (number) " of " (pages) "." }
        div.wide { table {
            thead { tr {
                @for (name, title) in COLUMNS {
                    th.number[name != "name"] scope="col" aria-sort=[(name == sort).then_some(if name == "name" { "ascending" } else { "descending" })] {
                        a href=(address(name, 1)) { (title) }
                    }
                }
                th scope="col" { "Policy" }
            } }
            tbody { @for (queue, figures) in shown { (row(&pool, queue, figures)) } }
        } }
        nav.pages aria-label="Pages of the list" {
            @if number > 1 { a rel="prev" href=(address(sort, number - 1)) { "Previous page" } }
            @if number < pages { a rel="next" href=(address(sort, number + 1)) { "Next page" } }
        }
    };
    let search = html! {
        form.row method="get" action=(links::queues(&pool.name)) {
            label { "Name contains" input name="contains" value=(part) maxlength="511"; }
            input type="hidden" name="sort" value=(sort);
            button { "Search" }
        }
    };
    Ok(Page {
        title: format!("Queues of {}", pool.name),
        place: Some((pool.name.to_string(), Section::Queues)),
        trail: vec![],
        seen: None,
        blocks: vec![
            PageBlock::fixed("search", search),
            PageBlock::live("queues", table),
        ],
    })
}

fn sort_by(queues: &mut [(QueueKey, QueueFigures)], column: &str) {
    let count: fn(&QueueFigures) -> u64 = match column {
        "delayed" => |figures| figures.stats.delayed,
        "ready" => |figures| figures.stats.ready,
        "leased" => |figures| figures.stats.leased,
        "dead" => |figures| figures.stats.dead,
        "oldest" => |figures| figures.oldest_ready_ms.unwrap_or(0),
        // They are sorted by name.
        _ => return,
    };
    queues.sort_by_key(|(_, figures)| Reverse(count(figures)));
}

fn row(pool: &Pool, queue: &QueueKey, figures: &QueueFigures) -> Markup {
    let stats = &figures.stats;
    html! {
        tr {
            td { a href=(links::queue(&pool.name, queue)) { (queue) } }
            @for count in [stats.delayed, stats.ready, stats.leased, stats.dead] {
                td.number { (text::number(count)) }
            }
            td.number { (oldest(figures)) }
            td {
                @if pool.is_paused(queue) { span.badge.warn { "paused" } " " }
                @if pool.policy(queue).closed { span.badge.warn { "closed" } }
            }
        }
    }
}
