//! Judges a history: finds lost, duplicate, early and late jobs, and other violations.
//!
//! A pure function of the observations of clients; no internal state of the service is used. A request without a
//! clear answer may have been carried out or not, at any time from its begin until sent calls must have
//! ended. Both cases are considered.

mod collect;
mod excuses;
mod job;
mod observed;
mod queues;
mod request_spans;
mod rules;
#[cfg(test)]
mod tests;
mod unobserved_reservations;
mod verdict;
mod version;

pub use verdict::{Defect, Finding, JobCounts, Lateness, Verdict};

use crate::history::History;
use excuses::Excuses;
use observed::Observed;
use queues::QueueRequests;
use rules::RuleContext;
use version::Storing;

/// Checks every job of a history against the guarantees.
#[must_use]
pub fn judge(history: &History) -> Verdict {
    let excuses = Excuses::from_history(history);
    let queues = QueueRequests::from_history(history);
    let context = RuleContext {
        excuses: &excuses,
        queues: &queues,
    };
    let mut verdict = Verdict::default();
    let observed = collect::collect(history, &excuses, &mut verdict);
    rules::judge(history, &observed, context, &mut verdict);
    count(&observed, &mut verdict.counts);
    verdict
        .lateness
        .sort_by_key(|lateness| lateness.waited.from);
    verdict
}

fn count(observed: &Observed<'_>, counts: &mut JobCounts) {
    for version in observed.versions.values() {
        counts.published += usize::from(version.storing() == Storing::Certain);
        counts.open += usize::from(version.storing() == Storing::Possible);
    }
    for job in observed.jobs.values() {
        counts.delivered += usize::from(!job.deliveries.is_empty());
        counts.deliveries += job.deliveries.len();
    }
}
