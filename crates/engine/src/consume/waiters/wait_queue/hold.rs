//! Wait queues that a rate holds back: no round begins until there may be units again. Consumers that arrive meanwhile
//! wait, or get no job at once if they do not.

use std::time::Duration;

use tokio::time::Instant;

use super::{Round, WaitQueue};

/// The shortest hold: at a high rate a round takes the units of this time together.
const HOLD_MIN: Duration = Duration::from_millis(5);

/// The hold of a wait queue, which one timer ends.
#[derive(Debug)]
pub(super) struct Hold {
    until: Instant,
    /// Its timer; a timer of an earlier hold does not end it.
    timer: u64,
}

impl WaitQueue {
    /// Holds the wait queue back until there may be a unit, and at most for `longest`. `timer` is the number of a new timer.
    /// Returns whether the caller must start it.
    pub(in crate::consume::waiters) fn hold(
        &mut self,
        next_unit: Duration,
        longest: Duration,
        timer: u64,
        now: Instant,
    ) -> bool {
        let until = now + next_unit.max(HOLD_MIN).min(longest);
        match &mut self.hold {
            Some(hold) => {
                hold.until = hold.until.max(until);
                false
            }
            None => {
                self.hold = Some(Hold { until, timer });
                true
            }
        }
    }

    /// Ends a round that got no unit. The caller must hold the wait queue back.
    pub(in crate::consume::waiters) fn found_no_units(&mut self, round: &Round) {
        if let Some(lane) = self.lanes.get_mut(usize::from(round.lane)) {
            lane.busy = false;
            lane.is_answered = true;
            lane.has_failed = false;
            // The hold may be over before the next round is sought.
            lane.check_requested = true;
            // If all seats are left during the hold, the doorbell has to be passed on.
            lane.is_rung |= round.is_rung;
            self.turn.end(usize::from(round.lane));
        }
    }

    /// Until when a timer has to wait; `None` if its hold is over.
    pub(in crate::consume::waiters) fn held_until(&self, timer: u64) -> Option<Instant> {
        let hold = self.hold.as_ref().filter(|hold| hold.timer == timer)?;
        Some(hold.until)
    }

    /// Ends the hold. Returns whether the caller must start a serve loop.
    pub(in crate::consume::waiters) fn end_hold(&mut self) -> bool {
        self.hold.take().is_some() && self.start()
    }

    pub(super) fn is_held(&self, now: Instant) -> bool {
        self.hold.as_ref().is_some_and(|hold| now < hold.until)
    }

    /// No round begins for the seats with tickets below `below`: lanes that ring no doorbell are to be checked after the
    /// hold.
    pub(super) fn hold_back(&mut self, below: u64) {
        for lane in &mut self.lanes {
            lane.check_requested |= !lane.is_registered;
            lane.checked_below = lane.checked_below.max(below);
        }
        self.notify_checked();
    }
}
