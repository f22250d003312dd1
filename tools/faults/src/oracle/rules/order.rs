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

use std::collections::HashMap;

use super::context::RuleContext;
use crate::history::{History, Span, UnixMicros};
use crate::oracle::observed::Observed;
use crate::oracle::verdict::{Defect, Verdict};
use crate::oracle::version::{Storing, VersionHistory};

const MS: u64 = 1000;

/// Finds jobs that were overtaken in their queue, among the queues that only the lmstfy wire uses.
pub(super) fn judge(
    history: &History,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let mut queues: HashMap<u16, Vec<FirstDelivery<'_>>> = HashMap::new();
    for version in observed.versions.values() {
        let queue = version.queue;
        if history.laned.contains(&queue) || context.queues.is_native(queue) {
            continue;
        }
        let first = FirstDelivery::new(version, observed);
        // There is no order between two pools.
        let first = first.filter(|it| it.reserved < context.excuses.pool_moved_at());
        queues.entry(queue).or_default().extend(first);
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
                        from: entry.version.stored().from,
                        to: entry.reserved,
                    })
            });
            if let Some(overtaker) = overtaker {
                let (name, other) = (entry.version.name(), overtaker.version.spec.number);
                let text = format!("{name} came after {other}, which was behind it");
                verdict.add_finding(Defect::OutOfOrder, entry.reserved, text);
            }
        }
    }
}

/// A version and its first delivery.
struct FirstDelivery<'a> {
    version: &'a VersionHistory<'a>,
    reserved: UnixMicros,
    created: UnixMicros,
}

impl<'a> FirstDelivery<'a> {
    fn new(version: &'a VersionHistory<'a>, observed: &Observed<'_>) -> Option<Self> {
        let job = observed.jobs.get(version.id.as_ref()?)?;
        let first = job.deliveries.first()?;
        let is_first = first.tries_left? + 1 == version.spec.tries;
        let is_certain = version.storing() == Storing::Certain && job.has_reliable_times;
        (is_certain && is_first).then(|| Self {
            version,
            reserved: first.begin.from,
            created: version.created(),
        })
    }

    fn due(&self) -> UnixMicros {
        self.created + self.version.spec.delay
    }

    fn is_ahead_of(&self, other: &Self) -> bool {
        let (publish, behind) = (&self.version.publishes[0], &other.version.publishes[0]);
        let answered = publish.operation.span.to;
        match (self.version.spec.delay, other.version.spec.delay) {
            (0, 0) if std::ptr::eq(publish.operation, behind.operation) => {
                publish.index < behind.index
            }
            (0, 0) => answered < behind.operation.span.from,
            (0, _) => answered < other.due(),
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
