//! Checks that a queue with one lane is first in, first out.
//!
//! Of two jobs, one is certainly ahead of the other in the list of their queue if
//! - both have no delay, and one publish was answered before the other was sent, or both were in one publish; or
//! - the first has no delay, and its publish was answered before the second was due; or
//! - both have a delay, and the first was due in an earlier ms.
//!
//! Then the other one must not be reserved first, provided that the queue never has several lanes, the pool has not
//! moved, and no fault had an effect since the publish of the first. Only first deliveries are compared, and only if no
//! try is missing.
//!
//! A job that was reserved for a consumer that no longer waits is released to the head of the list, without costing a
//! try, and no client observes it. Others may be delivered meanwhile. So a job may be overtaken while a consumer that
//! waited for its queue leaves without a job of it: with jobs of another queue, at its timeout, or by hanging up.

use std::collections::{BTreeMap, HashMap};

use super::job_history::JobHistory;
use super::rules::RuleContext;
use super::verdict::{Defect, Verdict};
use crate::history::{Span, UnixMicros};

const MS: u64 = 1000;

/// Finds jobs that were overtaken in their queue. `laned` has the queues that may have several lanes.
pub(super) fn judge(
    job_histories: &BTreeMap<u64, JobHistory<'_>>,
    laned: &[u16],
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let mut queues: HashMap<u16, Vec<FirstDelivery<'_, '_>>> = HashMap::new();
    for job_history in job_histories.values() {
        let Some(entry) = FirstDelivery::new(job_history) else {
            continue;
        };
        // There is no order between two pools.
        if !laned.contains(&job_history.queue) && entry.reserved < context.excuses.pool_moved_at() {
            queues.entry(job_history.queue).or_default().push(entry);
        }
    }
    for (queue, mut entries) in queues {
        entries.sort_by_key(|it| it.reserved);
        let left = context.queues.abandoned_waits(queue, context.excuses);
        for (place, entry) in entries.iter().enumerate() {
            let before = &entries[..place];
            let overtaker = before.iter().find(|it| {
                it.reserved < entry.reserved
                    && entry.is_ahead_of(it)
                    && !left.iter().any(|left| left.overlaps(&span_at(it.reserved)))
                    && context.excuses.is_without_fault(Span {
                        from: entry.job_history.published.span.from,
                        to: entry.reserved,
                    })
            });
            if let Some(overtaker) = overtaker {
                let (name, other) = (entry.job_history.name(), overtaker.job_history.terms.number);
                let text = format!("{name} came after job {other}, which was behind it");
                verdict.add_finding(Defect::OutOfOrder, entry.reserved, text);
            }
        }
    }
}

/// A job and its first delivery.
struct FirstDelivery<'s, 'a> {
    job_history: &'s JobHistory<'a>,
    reserved: UnixMicros,
    created: UnixMicros,
}

impl<'s, 'a> FirstDelivery<'s, 'a> {
    fn new(job_history: &'s JobHistory<'a>) -> Option<Self> {
        let first = job_history.deliveries.first()?;
        let is_first = first.got.tries_left + 1 == job_history.terms.tries;
        (job_history.is_published() && job_history.has_reliable_times && is_first).then(|| Self {
            job_history,
            reserved: first.got.reserved(),
            created: first.got.created,
        })
    }

    fn due(&self) -> UnixMicros {
        self.created + self.job_history.terms.delay
    }

    fn is_ahead_of(&self, other: &Self) -> bool {
        let (publish, behind) = (self.job_history.published, other.job_history.published);
        match (self.job_history.terms.delay, other.job_history.terms.delay) {
            (0, 0) if std::ptr::eq(publish, behind) => {
                self.job_history.index < other.job_history.index
            }
            (0, 0) => publish.span.to < behind.span.from,
            (0, _) => publish.span.to < other.due(),
            (_, 0) => false,
            (_, _) => self.due() + MS < other.due(),
        }
    }
}

const fn span_at(moment: UnixMicros) -> Span {
    Span {
        from: moment,
        to: moment,
    }
}
