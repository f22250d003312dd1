//! Injected faults, and their excuses.

use serde::{Deserialize, Serialize};

use super::time::{Span, UnixMicros};
use crate::fault::Class;

/// An injected fault, as it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Episode {
    pub class: Class,
    /// Description with its target.
    pub what: String,
    /// From its begin to its end.
    pub span: Span,
    /// It excuses late jobs from its begin until this time. That may be before its end, if others take over from a
    /// daemon that is unavailable.
    pub excuses_until: UnixMicros,
    /// Writes that Redis acknowledged in this time may be lost, because of its configuration.
    pub may_lose: Option<Span>,
    /// Queues on unaffected servers: from `unaffected_from` on it excuses nothing there.
    pub unaffected_queues: Vec<u16>,
    /// The time from which on it excuses nothing for `unaffected_queues`.
    pub unaffected_from: UnixMicros,
    /// The times in which an API that stopped closed idle connections: a request that was sent on one then may stay
    /// without an answer.
    pub idle_closed: Vec<Span>,
}

impl Episode {
    /// Returns the span in which it excuses late jobs.
    #[must_use]
    pub const fn excused(&self) -> Span {
        Span {
            from: self.span.from,
            to: self.excuses_until,
        }
    }

    /// Returns the span in which it excuses late jobs of this queue.
    #[must_use]
    pub fn excused_for(&self, queue: u16) -> Span {
        let Span { from, to } = self.excused();
        let to = match self.unaffected_queues.contains(&queue) {
            true => to.min(self.unaffected_from.max(from)),
            false => to,
        };
        Span { from, to }
    }

    /// Whether it excuses nothing for these queues at `from` and later.
    #[must_use]
    pub fn does_not_affect(&self, queues: &[u16], from: UnixMicros) -> bool {
        let is_unaffected = |queue| self.unaffected_queues.contains(queue);
        !queues.is_empty() && queues.iter().all(is_unaffected) && from >= self.unaffected_from
    }

    /// Whether it was active, or still has an effect, in a part of this span.
    #[must_use]
    pub const fn affects(&self, span: &Span) -> bool {
        self.span.overlaps(span) || self.excused().overlaps(span)
    }
}
