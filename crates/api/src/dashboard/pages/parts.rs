//! Parts of several pages.

use maud::{Markup, html};
use tidegate_core::v1::job::{DeadReason, JobDetails};
use tidegate_core::{JobState, QueueKey};
use tidegate_engine::{Pool, QueueFigures};
use tidegate_store::TableRevision;

use super::super::chart::{Line, Unit, chart, rates};
use super::super::form::SubmittedForm;
use super::super::history::{ChartSample, Figures, Subject};
use super::super::page::{PageBlock, SEEN};
use super::super::visit::Visit;
use super::super::{links, text};

/// A state with its colour.
pub(super) fn state_badge(state: JobState) -> Markup {
    let name = state.as_str();
    html! { span class={ "badge state-" (name) } { (name) } }
}

pub(super) const fn reason_text(reason: DeadReason) -> &'static str {
    match reason {
        DeadReason::Failures => "it failed as often as it may",
        DeadReason::Losses => "workers were lost while they held it",
        DeadReason::Permanent => "its worker said that no attempt can succeed",
        DeadReason::Unreadable => "its payload is damaged",
    }
}

/// A number with its name, and its link.
pub(super) fn tile(label: &str, value: &str, link: Option<&str>) -> Markup {
    html! {
        li.tile {
            @match link {
                Some(link) => a href=(link) { strong { (value) } span { (label) } },
                None => { strong { (value) } span { (label) } }
            }
        }
    }
}

/// The numbers of jobs of a queue, or of all. `link` leads to the jobs in a state.
pub(super) fn tiles(figures: &QueueFigures, link: impl Fn(JobState) -> Option<String>) -> Markup {
    let stats = &figures.stats;
    let counts = [
        stats.delayed,
        stats.ready,
        stats.leased,
        stats.dead,
        stats.done,
    ];
    html! {
        ul.tiles {
            @for (state, count) in JobState::ALL.into_iter().zip(counts) {
                (tile(state.as_str(), &text::number(count), link(state).as_deref()))
            }
            (tile("oldest ready", &oldest(figures), None))
        }
    }
}

/// The age of the oldest ready job.
pub(super) fn oldest(figures: &QueueFigures) -> String {
    match figures.oldest_ready_ms {
        Some(ms) => text::duration(ms),
        None => "–".to_owned(),
    }
}

/// Notes the figures of a pool or a queue, and draws the figures of the last minutes.
pub(super) fn charts(
    visit: &Visit,
    pool: &Pool,
    queue: Option<&QueueKey>,
    sizes: QueueFigures,
    overdue_ms: u64,
) -> Markup {
    let traffic = match queue {
        None => pool.job_traffic(),
        Some(queue) => pool.queue_traffic(queue).unwrap_or_default(),
    };
    let subject = Subject {
        pool: pool.name.to_string(),
        queue: queue.cloned(),
    };
    let figures = Figures {
        sizes,
        overdue_ms,
        traffic,
    };
    let samples = visit.dashboard.history.note(subject, figures);
    let of_sizes = |name, size: fn(&QueueFigures) -> u64| Line {
        name,
        values: samples
            .iter()
            .map(|sample| Some(size(&sample.figures.sizes) as f64))
            .collect(),
    };
    let rate = |name, counter: fn(&ChartSample) -> u64| Line {
        name,
        values: rates(&samples, counter),
    };
    let rate_lines = [
        rate("published", |sample| sample.figures.traffic.published),
        rate("delivered", |sample| sample.figures.traffic.delivered),
        rate("ended", |sample| sample.figures.traffic.ended),
    ];
    let depth_lines = [
        of_sizes("ready", |sizes| sizes.stats.ready),
        of_sizes("leased", |sizes| sizes.stats.leased),
        of_sizes("dead", |sizes| sizes.stats.dead),
    ];
    let age = [of_sizes("oldest ready job", |sizes| {
        sizes.oldest_ready_ms.unwrap_or(0)
    })];
    let lateness = [Line {
        name: "earliest timer",
        values: samples
            .iter()
            .map(|sample| Some(sample.figures.overdue_ms as f64))
            .collect(),
    }];
    html! {
        div.charts {
            (chart("Rate, through this process", Unit::JobsPerSecond, &samples, &rate_lines))
            (chart("Depth", Unit::Jobs, &samples, &depth_lines))
            (chart("Age", Unit::Milliseconds, &samples, &age))
            (chart("Lateness, of the pool", Unit::Milliseconds, &samples, &lateness))
        }
        p.hint {
            "Charts show the last 5 minutes, as far as a page of this pool or queue was open. "
            "Rates count the jobs of this process of tidegate-api only: for the "
            "whole deployment, sum " code { "rate(infra_lmstfy_redis_publish_jobs[1m])" } " of all processes in Prometheus."
        }
    }
}

/// The revision of an entry of a table, for forms.
pub(super) fn revision_text(revision: Option<TableRevision>) -> String {
    revision.map_or_else(|| "damaged".to_owned(), |revision| revision.to_string())
}

/// The hidden fields of a form about an entry of a table: it changes what the page shows, and nothing newer.
pub(super) fn revision_fields(visit: &Visit, revision: Option<TableRevision>) -> Markup {
    html! {
        (visit.token.field())
        input type="hidden" name="revision" value=(revision_text(revision));
    }
}

/// Whether a form with [`revision_fields`] was sent from a page that shows another revision than this one.
pub(super) fn is_stale(form: &SubmittedForm, revision: Option<TableRevision>) -> bool {
    form.get("revision") != Some(revision_text(revision).as_str())
}

/// Says that the content of a page is no longer true, with a link to the page. `now` is the value that [`Page::seen`]
/// would have.
///
/// [`Page::seen`]: super::super::page::Page::seen
pub(super) fn changed_news(visit: &Visit, what: &str, now: &str, link: &str) -> PageBlock {
    let is_changed = visit.parameter(SEEN).is_some_and(|seen| seen != now);
    PageBlock::news(html! {
        @if is_changed {
            p { (what) " has been changed since this page was loaded. " a href=(link) { "Load it again" } }
        }
    })
}

pub(super) fn job_table(pool: &str, queue: &QueueKey, jobs: &[JobDetails]) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr {
                    th scope="col" { "Job" } th scope="col" { "State" } th scope="col" { "Due, or lease ends" }
                    th.number scope="col" { "Attempt" } th scope="col" { "Last error" }
                } }
                tbody {
                    @for job in jobs {
                        tr {
                            td {
                                a href=(links::job(pool, queue, job.id)) { code { (job.id) } }
                                @if let Some(key) = &job.key {
                                    br; small title=(key.as_str()) { "key " (text::shortened(key.as_str(), 60)) }
                                }
                            }
                            td { (state_badge(job.state)) }
                            td { @if let Some(at) = job.run_at.or(job.lease_until) { (text::time(at)) } }
                            td.number { (job.attempt) " of " (job.max_attempts) }
                            td {
                                @if let Some(error) = job.history.last().and_then(|last| last.error.as_ref()) {
                                    span title=(error.as_str()) { (text::shortened(error.as_str(), 80)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
