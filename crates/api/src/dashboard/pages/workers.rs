//! `/ui/POOL/workers`: who holds what since when, in one namespace.

use std::sync::Arc;

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{Namespace, QueueKey, QueueName};
use tidegate_engine::{ListedLease, ListedWorker, Pool, WorkerPage};

use super::super::error::PageError;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::Visit;
use super::super::{links, text};
use super::namespaces::NamespaceChoice;

const WORKERS_PER_PAGE: usize = 100;
/// How many of the jobs of a worker are shown.
const JOBS_SHOWN: usize = 10;

pub(in super::super) async fn show(visit: Visit, Path(pool): Path<String>) -> Response {
    visit.show_pool(&pool, page).await
}

async fn page(visit: Arc<Visit>, pool: Arc<Pool>) -> Result<Page, PageError> {
    let NamespaceChoice {
        known,
        chosen: wanted,
    } = NamespaceChoice::of(&visit, &pool).await?;
    let workers = match &wanted {
        Some(namespace) => {
            let after = visit.parameter("after").unwrap_or_default();
            pool.workers(namespace, after, WORKERS_PER_PAGE).await?
        }
        None => WorkerPage {
            workers: vec![],
            next: None,
        },
    };
    let WorkerPage { workers, next } = workers;
    let table = html! {
        @match &wanted {
            None => p.hint { "There are no queues." },
            Some(_) if workers.is_empty() => p.hint {
                "No worker of this namespace has given its name in the last minute, or holds a job. Workers give it as "
                code { "worker" } " in a reserve call."
            },
            Some(namespace) => (worker_table(&pool, namespace, &workers)),
        }
        // Also behind a page without workers: all of them may be gone.
        @if let (Some(namespace), Some(next)) = (&wanted, &next) {
            nav.pages aria-label="Pages of the list" {
                a rel="next" href=(next_page(&pool, namespace, next)) { "Next page" }
            }
        }
    };
    let choice = html! {
        form.row method="get" action=(links::workers(&pool.name)) {
            label { "Namespace"
                select name="namespace" {
                    @for namespace in &known {
                        option value=(namespace) selected[wanted.as_ref() == Some(namespace)] { (namespace) }
                    }
                }
            }
            button { "Show" }
        }
    };
    Ok(Page {
        title: format!("Workers of {}", pool.name),
        place: Some((pool.name.to_string(), Section::Workers)),
        trail: vec![],
        seen: None,
        blocks: vec![
            PageBlock::fixed("choice", choice),
            PageBlock::live("workers", table),
        ],
    })
}

fn next_page(pool: &Pool, namespace: &Namespace, after: &str) -> String {
    let pairs = [("namespace", namespace.as_str()), ("after", after)];
    links::with_query(&links::workers(&pool.name), pairs)
}

fn worker_table(pool: &Pool, namespace: &Namespace, workers: &[ListedWorker]) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th scope="col" { "Worker" } th scope="col" { "Queues" } th scope="col" { "Seen" }
                th scope="col" { "Holds" }
            } }
            tbody {
                @for worker in workers {
                    tr {
                        td { (worker.name) }
                        td { (text::shortened(&worker.queues.join(", "), 200)) }
                        td {
                            @if worker.waits { "waits for jobs" }
                            @else { (text::time(Timestamp::saturating(worker.seen_at_ms))) }
                        }
                        td { (leases(pool, namespace, &worker.leases)) }
                    }
                }
            }
        } }
    }
}

fn leases(pool: &Pool, namespace: &Namespace, leases: &[ListedLease]) -> Markup {
    let link = |lease: &ListedLease| {
        let queue = QueueName::try_from(lease.queue.as_str()).ok()?;
        let queue = QueueKey {
            namespace: namespace.clone(),
            queue,
        };
        Some(links::job(&pool.name, &queue, lease.id))
    };
    html! {
        @if leases.is_empty() { "nothing" } @else {
            (text::jobs(leases.len() as u64))
            ul {
                @for lease in leases.iter().take(JOBS_SHOWN) {
                    li {
                        a href=[link(lease)] { code { (lease.id.to_string()) } }
                        " of " (lease.queue) ", since " (text::time(Timestamp::saturating(lease.since_ms)))
                    }
                }
                @if leases.len() > JOBS_SHOWN { li { "and others, the longest first" } }
            }
        }
    }
}
