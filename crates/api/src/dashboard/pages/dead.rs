//! `/ui/POOL/queues/NAMESPACE/QUEUE/dead`: the dead jobs of a queue, grouped by their last error.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::Response;
use maud::{Markup, html};
use tidegate_core::v1::job::{ErrorDigest, JobFilter};
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{JobState, QueueKey};
use tidegate_engine::{JobCursor, Pool};

use super::super::error::PageError;
use super::super::page::{Page, PageBlock, SEEN, Section};
use super::super::visit::Visit;
use super::super::{links, text};
use super::jobs::{ERROR_GROUP, act_form};
use super::queue::{QueuePath, show_queue, trail};

/// How many dead jobs are grouped: the jobs that died first.
const GROUPED_MAX: usize = 1000;
const GROUPS_MAX: usize = 50;

/// Dead jobs with the same last error.
#[derive(Debug, Default)]
struct ErrorGroup {
    jobs: u64,
    last_died_ms: u64,
}

pub(in super::super) async fn show(visit: Visit, path: QueuePath) -> Response {
    show_queue(visit, path, page).await
}

async fn page(visit: Arc<Visit>, pool: Arc<Pool>, queue: QueueKey) -> Result<Page, PageError> {
    let stats = pool.stats(&queue).await?;
    let seen = stats.dead.to_string();
    let news = news(&visit, &pool, &queue, stats.dead);
    if visit.wants_stream {
        // The groups are not looked at again.
        return Ok(page_of(&pool, &queue, None, vec![news]));
    }
    let (groups, is_whole) = groups(&pool, &queue).await?;
    let filter = [("state".to_owned(), "dead".to_owned())];
    let content = html! {
        p { strong { (text::jobs(stats.dead)) } " in the dead letter." }
        @if !is_whole { p.hint { "Grouped are the " (text::number(GROUPED_MAX as u64)) " that died first." } }
        @if !groups.is_empty() { (group_table(&pool, &queue, &groups)) }
        p { a.button href=(links::with_query(&links::jobs(&pool.name, &queue), [("state", "dead")])) { "List them" } }
    };
    let act = match stats.dead {
        0 => html! {},
        _ => act_form(&visit, &pool, &queue, &filter),
    };
    let blocks = vec![
        PageBlock::fixed("groups", content),
        PageBlock::fixed("actions", act),
        news,
    ];
    Ok(page_of(&pool, &queue, Some(seen), blocks))
}

fn page_of(pool: &Pool, queue: &QueueKey, seen: Option<String>, blocks: Vec<PageBlock>) -> Page {
    Page {
        title: format!("Dead jobs of {queue}"),
        place: Some((pool.name.to_string(), Section::Queues)),
        trail: trail(&pool.name, queue),
        seen,
        blocks,
    }
}

/// Says that there are more or fewer dead jobs than when the page was loaded.
fn news(visit: &Visit, pool: &Pool, queue: &QueueKey, dead: u64) -> PageBlock {
    let seen = visit.parameter(SEEN);
    let seen: Option<u64> = seen.and_then(|seen| seen.parse().ok());
    PageBlock::news(html! {
        @if let Some(seen) = seen.filter(|seen| *seen != dead) {
            p {
                "Now " (text::jobs(dead)) ", " (text::number(seen)) " when this page was loaded. "
                a href=(links::dead(&pool.name, queue)) { "Load it again" }
            }
        }
    })
}

/// The groups, the largest first, and whether all dead jobs are in them.
async fn groups(
    pool: &Pool,
    queue: &QueueKey,
) -> Result<(Vec<(Option<String>, ErrorGroup)>, bool), PageError> {
    let filter = JobFilter {
        state: Some(JobState::Dead),
        ..JobFilter::default()
    };
    let page = pool
        .list_jobs(queue, &filter, JobCursor::default(), GROUPED_MAX)
        .await?;
    let mut groups: BTreeMap<Option<String>, ErrorGroup> = BTreeMap::new();
    for listed in &page.jobs {
        let error = listed.last_failure.as_ref();
        let error = error.map(|failure| failure.error.to_string());
        let group = groups.entry(error).or_default();
        group.jobs += 1;
        group.last_died_ms = group.last_died_ms.max(listed.job.due_at_ms);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.jobs));
    groups.truncate(GROUPS_MAX);
    Ok((groups, page.next.is_none()))
}

fn group_table(pool: &Pool, queue: &QueueKey, groups: &[(Option<String>, ErrorGroup)]) -> Markup {
    let link = |error: Option<&str>| {
        let group = ErrorDigest::of(error).to_string();
        let pairs = [("state", "dead"), (ERROR_GROUP, group.as_str())];
        links::with_query(&links::jobs(&pool.name, queue), pairs)
    };
    let name = |error: Option<&str>| match error {
        None => "no error is known: workers were lost".to_owned(),
        Some(error) if error.trim().is_empty() => "an error without a text".to_owned(),
        Some(error) => text::shortened(error, 120),
    };
    html! {
        div.wide { table {
            thead { tr {
                th scope="col" { "Last error" } th.number scope="col" { "Jobs" } th scope="col" { "Last one died" }
            } }
            tbody {
                @for (error, group) in groups {
                    tr {
                        td { a href=(link(error.as_deref())) title=[error.as_ref()] { (name(error.as_deref())) } }
                        td.number { (text::number(group.jobs)) }
                        td { (text::time(Timestamp::saturating(group.last_died_ms))) }
                    }
                }
            }
        } }
    }
}
