//! Judges a history: finds lost, duplicate, early and late jobs, and other violations.
//!
//! A pure function of what clients observed; no internal state of the service is used. A request without a
//! clear answer may have been carried out or not, at any time from its begin until sent calls must have
//! ended. Both cases are considered.

mod cut;
mod excuses;
mod job_history;
mod native;
mod order;
mod queues;
mod request_spans;
mod rules;
#[cfg(test)]
mod tests;
mod tokens;
mod unobserved_reservations;
mod verdict;

pub use verdict::{Defect, Finding, JobCounts, Lateness, NativeCounts, Verdict};

use crate::history::History;
use excuses::Excuses;
use job_history::JobHistory;
use queues::QueueRequests;
use rules::RuleContext;

/// Checks every job of a history against the guarantees.
#[must_use]
pub fn judge(history: &History) -> Verdict {
    let windows = Excuses::from_history(history);
    let queues = QueueRequests::from_history(history);
    let context = RuleContext {
        excuses: &windows,
        queues: &queues,
    };
    let mut verdict = Verdict::default();
    let job_histories = job_history::job_histories_of(history, &windows, &mut verdict);
    for job_history in job_histories.values() {
        let respawned = rules::apply(job_history, context, &mut verdict);
        count(job_history, respawned, context, &mut verdict.counts);
    }
    order::judge(&job_histories, &history.laned, context, &mut verdict);
    tokens::judge(history, &windows, &mut verdict);
    rules::peeked(history, &job_histories, context, &mut verdict);
    rules::peeked_dead(history, &job_histories, context, &mut verdict);
    rules::refused_without_reason(history, &mut verdict);
    native::judge(history, context, &mut verdict);
    verdict
        .lateness
        .sort_by_key(|lateness| lateness.waited.from);
    verdict
}

fn count(
    job_history: &JobHistory<'_>,
    respawned: usize,
    context: RuleContext<'_>,
    counts: &mut JobCounts,
) {
    counts.published += usize::from(job_history.is_published());
    counts.open += usize::from(job_history.published.outcome.is_unknown());
    counts.delivered += usize::from(!job_history.deliveries.is_empty());
    counts.deliveries += job_history.deliveries.len();
    counts.ended += usize::from(rules::may_have_ended(job_history, context));
    counts.dead += usize::from(respawned > 0);
}
