//! `/ui/POOL/schedules`: the schedules of a namespace, with their next ticks.

use std::sync::Arc;

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{Namespace, QueueKey};
use tidegate_engine::{EngineError, Pool};
use tidegate_store::{NamespacedName, Row, ScheduleDefinition, ScheduleTimes};

use super::super::error::PageError;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::Visit;
use super::super::{links, text};
use super::namespaces::NamespaceChoice;

const SCHEDULES_PER_PAGE: usize = 100;

pub(in super::super) async fn show(visit: Visit, Path(pool): Path<String>) -> Response {
    visit.show_pool(&pool, page).await
}

/// A schedule, the queue of its jobs, and its next tick if it has one.
struct ShownSchedule {
    key: NamespacedName,
    queue: Option<QueueKey>,
    stored: Row<ScheduleDefinition>,
    next_ms: Option<u64>,
}

async fn page(visit: Arc<Visit>, pool: Arc<Pool>) -> Result<Page, PageError> {
    let NamespaceChoice {
        known,
        chosen: wanted,
    } = NamespaceChoice::of(&visit, &pool).await?;
    let after = visit.parameter("after");
    let (schedules, has_more) = match &wanted {
        Some(namespace) => schedules_of(&pool, namespace, after).await?,
        None => (vec![], false),
    };
    let last = schedules.last().filter(|_| has_more);
    let table = html! {
        @if schedules.is_empty() {
            p.hint { "This namespace has no schedule. A schedule is set through the API: " code { "PUT /v1/NAMESPACE/schedules/NAME" } }
        } @else { (schedule_table(&pool, &schedules)) }
        @if let Some(last) = last {
            nav.pages aria-label="Pages of the list" {
                a rel="next" href=(next_page(&pool, &last.key)) { "Next page" }
            }
        }
    };
    let choice = html! {
        form.row method="get" action=(links::schedules(&pool.name)) {
            label { "Namespace"
                input name="namespace" list="namespaces" value=[wanted.as_ref()];
            }
            datalist #namespaces {
                @for namespace in &known { option value=(namespace) {} }
            }
            button { "Show" }
        }
    };
    Ok(Page {
        title: format!("Schedules of {}", pool.name),
        place: Some((pool.name.to_string(), Section::Schedules)),
        trail: vec![],
        seen: None,
        blocks: vec![
            PageBlock::fixed("choice", choice),
            PageBlock::live("schedules", table),
        ],
    })
}

fn next_page(pool: &Pool, last: &NamespacedName) -> String {
    let pairs = [
        ("namespace", last.namespace.as_str()),
        ("after", &last.name),
    ];
    links::with_query(&links::schedules(&pool.name), pairs)
}

/// A page of schedules, and whether others follow.
async fn schedules_of(
    pool: &Pool,
    namespace: &Namespace,
    after: Option<&str>,
) -> Result<(Vec<ShownSchedule>, bool), EngineError> {
    let page = pool.schedules.page(namespace, after, SCHEDULES_PER_PAGE);
    let page = page.await?;
    let mut shown: Vec<ShownSchedule> = page
        .schedules
        .into_iter()
        .map(|(key, stored)| ShownSchedule {
            key,
            queue: stored.queue(namespace),
            stored,
            next_ms: None,
        })
        .collect();
    let readable: Vec<_> = shown
        .iter()
        .filter_map(|it| Some((&it.key, it.queue.as_ref()?)))
        .collect();
    let mut next_ms = pool.schedules.all_next_ms(&readable).await?.into_iter();
    for schedule in shown.iter_mut().filter(|it| it.queue.is_some()) {
        schedule.next_ms = next_ms.next().flatten();
    }
    Ok((shown, page.has_more))
}

fn schedule_table(pool: &Pool, schedules: &[ShownSchedule]) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th scope="col" { "Schedule" } th scope="col" { "Queue" } th scope="col" { "Times" }
                th scope="col" { "Next tick" }
            } }
            tbody {
                @for schedule in schedules {
                    tr {
                        td { a href=(links::schedule(&pool.name, &schedule.key)) { (schedule.key.name) } }
                        td {
                            @if let Some(queue) = &schedule.queue {
                                a href=(links::queue(&pool.name, queue)) { (queue) }
                            }
                        }
                        @match &schedule.stored.value {
                            Ok(definition) => td { (times(&definition.times)) },
                            Err(_) => td { span.badge.warn { "cannot be read" } " set it again" }
                        }
                        td {
                            @match schedule.next_ms {
                                Some(next_ms) => (text::time(Timestamp::saturating(next_ms))),
                                None => "none"
                            }
                        }
                    }
                }
            }
        } }
    }
}

/// When the ticks of a schedule are.
pub(super) fn times(times: &ScheduleTimes) -> Markup {
    html! {
        @if let Some(cron) = &times.cron {
            code { (cron) } " " (times.time_zone.as_deref().unwrap_or("UTC"))
        }
        @if let Some(every_ms) = times.every_ms { "every " (text::duration(every_ms)) }
        @if times.paused { " " span.badge.warn { "paused" } }
        @if let Some(at) = times.starts_at_ms { br; "from " (text::time(Timestamp::saturating(at))) }
        @if let Some(at) = times.ends_at_ms { br; "until " (text::time(Timestamp::saturating(at))) }
    }
}
