//! When consumers requested jobs of a queue. Time without such a request does not count as lateness.

use std::collections::HashMap;

use crate::history::{History, Operation, Span, UnixMicros, merge_spans, truncate_to_ms};

/// The spans in which at least one consumer requested jobs, by queue: sorted and disjoint.
#[derive(Debug, Default)]
pub(super) struct RequestSpans(HashMap<u16, Vec<Span>>);

impl RequestSpans {
    pub(super) fn from_history(history: &History) -> Self {
        let mut by_queue: HashMap<u16, Vec<Span>> = HashMap::new();
        for operation in &history.operations {
            if let Some((queues, _)) = operation.reserve() {
                for queue in queues {
                    let asked = request_span(operation, *queue);
                    by_queue.entry(*queue).or_default().extend(asked);
                }
            }
        }
        for spans in by_queue.values_mut() {
            spans.sort_by_key(|span| span.from);
            *spans = merge_spans(spans.drain(..));
        }
        Self(by_queue)
    }

    /// Returns the spans without a request after `since`, in order. The last one ends at
    /// `UnixMicros::MAX`.
    pub(super) fn pauses(&self, queue: u16, since: UnixMicros) -> Vec<Span> {
        let mut pauses = Vec::new();
        let mut from = since;
        for asked in self.0.get(&queue).into_iter().flatten() {
            if asked.from > from {
                let to = asked.from;
                pauses.push(Span { from, to });
            }
            from = from.max(asked.to);
        }
        let to = UnixMicros::MAX;
        pauses.push(Span { from, to });
        pauses
    }

    /// Returns the time with at least one request in this span, in µs.
    pub(super) fn time_within(&self, queue: u16, during: Span) -> u64 {
        let asked = self.0.get(&queue).into_iter().flatten();
        let within = asked.map(|asked| {
            let to = asked.to.min(during.to);
            to.saturating_sub(asked.from.max(during.from))
        });
        within.sum()
    }
}

/// Returns when a request asked for jobs of one of its queues.
fn request_span(consume: &Operation, queue: u16) -> Option<Span> {
    let Span { from, to } = consume.span;
    if consume.outcome.is_refused() {
        return None;
    }
    match consume.delivered() {
        // It stops requesting once a job of another queue is reserved for it.
        Some(jobs) if jobs.iter().all(|job| job.queue != queue) => {
            let reserved = jobs.iter().map(|job| truncate_to_ms(job.reserved));
            let to = reserved.min().map_or(to, |over| over.clamp(from, to));
            Some(Span { from, to })
        }
        _ => Some(consume.span),
    }
}
