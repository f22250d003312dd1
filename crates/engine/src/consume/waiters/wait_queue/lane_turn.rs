//! Which lane of a queue is served next: each has a turn.

use std::time::Duration;

use tokio::time::Instant;

/// How long a lane that fills all claims is served before the next one. The jobs that rounds of one turn deliver are
/// acknowledged at about the same time, in few calls for that lane; measured in
/// `docs/decisions/0022-lanes.md`.
pub(super) const TURN: Duration = Duration::from_millis(5);

/// The lane that was served last, and when its turn ends.
#[derive(Debug)]
pub(super) struct LaneTurn {
    lane: usize,
    /// When the turn is over; `None` = it was ended early, or none has begun.
    ends: Option<Instant>,
}

/// No turn, after a random lane: an empty wait queue is dropped, and its turn with it.
impl Default for LaneTurn {
    fn default() -> Self {
        Self {
            lane: usize::from(rand::random::<u16>()),
            ends: None,
        }
    }
}

impl LaneTurn {
    /// The numbers of the lanes, of which there are `lanes`, in the order in which they are to be served.
    pub(super) fn order(&self, lanes: usize, now: Instant) -> impl Iterator<Item = usize> + use<> {
        let first = self.lane + usize::from(!self.is_on(now));
        (first..first + lanes).map(move |lane| lane % lanes)
    }

    /// A round of this lane begins. It begins a turn, unless the lane has it.
    pub(super) fn begin(&mut self, lane: usize, now: Instant) {
        if self.lane != lane || !self.is_on(now) {
            *self = Self {
                lane,
                ends: Some(now + TURN),
            };
        }
    }

    /// This lane has no more jobs, or its call has failed: its turn is over.
    pub(super) fn end(&mut self, lane: usize) {
        if self.lane == lane {
            self.ends = None;
        }
    }

    /// No further round begins: the turn is over, so that the next consumer is served from another lane.
    pub(super) const fn pause(&mut self) {
        self.ends = None;
    }

    fn is_on(&self, now: Instant) -> bool {
        self.ends.is_some_and(|ends| now < ends)
    }
}
