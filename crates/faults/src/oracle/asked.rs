//! When consumers requested jobs of a queue. Time without such a request does not count as lateness.

use std::collections::HashMap;

use super::story::cut;
use crate::history::{Delivered, History, Moment, Operation, Outcome, Request, Span, joined};

/// The times in which at least one consumer asked, by queue: in their order, none meets another.
#[derive(Debug, Default)]
pub(super) struct Asked(HashMap<u16, Vec<Span>>);

impl Asked {
    pub(super) fn of(history: &History) -> Self {
        let mut by_queue: HashMap<u16, Vec<Span>> = HashMap::new();
        for operation in &history.operations {
            if let Request::Consume { queues, .. } = &operation.request {
                for queue in queues {
                    let asked = asked(operation, *queue);
                    by_queue.entry(*queue).or_default().extend(asked);
                }
            }
        }
        for spans in by_queue.values_mut() {
            spans.sort_by_key(|span| span.from);
            *spans = joined(spans.drain(..));
        }
        Self(by_queue)
    }

    /// The spans after a moment without a request, in order. The last one ends at `Moment::MAX`.
    pub(super) fn pauses(&self, queue: u16, since: Moment) -> Vec<Span> {
        let mut pauses = Vec::new();
        let mut from = since;
        for asked in self.0.get(&queue).into_iter().flatten() {
            if asked.from > from {
                let to = asked.from;
                pauses.push(Span { from, to });
            }
            from = from.max(asked.to);
        }
        let to = Moment::MAX;
        pauses.push(Span { from, to });
        pauses
    }

    /// The time with at least one request in this span, in µs.
    pub(super) fn time_within(&self, queue: u16, during: Span) -> u64 {
        let asked = self.0.get(&queue).into_iter().flatten();
        let within = asked.map(|asked| {
            let to = asked.to.min(during.to);
            to.saturating_sub(asked.from.max(during.from))
        });
        within.sum()
    }
}

/// When a consume asked for jobs of one of its queues.
fn asked(consume: &Operation, queue: u16) -> Option<Span> {
    let Span { from, to } = consume.span;
    match &consume.outcome {
        Outcome::NotSent | Outcome::Refused(_) => None,
        // Once it has a job of another queue it asks for nothing any more.
        Outcome::Delivered(jobs) if jobs.iter().all(|job| job.queue != queue) => {
            let over = jobs.iter().map(Delivered::reserved).map(cut).min();
            let to = over.map_or(to, |over| over.clamp(from, to));
            Some(Span { from, to })
        }
        _ => Some(consume.span),
    }
}
