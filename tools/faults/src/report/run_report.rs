//! The results of a run.

use std::collections::BTreeMap;

use crate::audit::Audits;
use crate::history::{ClientRequest, Episode, History, RequestOutcome, Span, UnixMicros, Wire};
use crate::oracle::{Lateness, Verdict};
use crate::plan::Plan;

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    pub plan: Plan,
    pub history: History,
    /// Numbers of audits.
    pub audits: Audits,
    pub verdict: Verdict,
}

impl RunReport {
    /// Whether there are no findings.
    #[must_use]
    pub const fn has_no_findings(&self) -> bool {
        self.verdict.findings.is_empty()
    }

    /// Returns the latest delivery that was due while this episode may have delayed it.
    #[must_use]
    pub fn latest_delivery_in(&self, episode: &Episode) -> Option<Lateness> {
        let Span { from, to } = episode.span;
        self.verdict
            .worst_between(from, to.max(episode.excuses_until))
    }

    /// Returns the time from the end of an episode to the next successful publish, in µs.
    #[must_use]
    pub fn recovery_after(&self, episode: &Episode) -> Option<u64> {
        let after = self.publishes().filter(|at| *at >= episode.span.to);
        after.map(|at| at - episode.span.to).min()
    }

    /// Returns the longest time between two successful publishes, in µs.
    #[must_use]
    pub fn longest_gap(&self) -> u64 {
        let mut last = self.history.began;
        let gaps = self.publishes().map(|at| {
            let gap = at.saturating_sub(last);
            last = at;
            gap
        });
        gaps.max().unwrap_or_default()
    }

    /// Returns how many requests of a wire were carried out and did something, by their names.
    #[must_use]
    pub fn carried_out(&self, wire: Wire) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for operation in self.history.operations.iter().filter(|it| it.wire == wire) {
            let outcome = &operation.outcome;
            let found_nothing = match outcome {
                RequestOutcome::Delivered(jobs) => jobs.is_empty(),
                RequestOutcome::NotFound | RequestOutcome::Conflict => true,
                _ => false,
            };
            if !found_nothing && !outcome.is_unknown() && !outcome.is_refused() {
                *counts.entry(operation.request.verb()).or_default() += 1;
            }
        }
        counts
    }

    /// Returns the number of deliveries from a queue.
    #[must_use]
    pub fn deliveries_from(&self, queue: u16) -> usize {
        let operations = self.history.operations.iter();
        let deliveries = operations.filter_map(|it| it.delivered()).flatten();
        deliveries.filter(|job| job.queue == queue).count()
    }

    /// Returns when successful publishes were answered, in order.
    fn publishes(&self) -> impl Iterator<Item = UnixMicros> {
        let good = self.history.operations.iter().filter(|operation| {
            matches!(operation.request, ClientRequest::Publish { .. })
                && matches!(operation.outcome, RequestOutcome::Published(_))
        });
        good.map(|operation| operation.span.to)
    }
}
