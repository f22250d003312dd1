//! Calls that failed: the seats stay, and the lane is checked again by a retry.

use super::lane_state::LaneState;
use super::{Round, WaitQueue};

impl WaitQueue {
    /// Records that a call failed. It counts as the first round of all seats that were waiting when it began, since a
    /// call for each of them would fail as well. They keep their seats.
    pub(in crate::consume::waiters) fn fail(&mut self, round: &Round) {
        if let Some(lane) = self.lanes.get_mut(usize::from(round.lane)) {
            lane.busy = false;
            lane.forget_registration();
            lane.is_answered = false;
            lane.checked_below = lane.checked_below.max(round.below);
            lane.has_failed = true;
            // If all seats are left before the call is repeated, the doorbell has to be passed on.
            lane.is_rung |= round.is_rung;
            self.turn.end(usize::from(round.lane));
        }
        self.notify_checked();
    }

    /// Requests another check of the lanes whose last call failed. Returns whether the caller must start a serve loop.
    pub(in crate::consume::waiters) fn retry(&mut self) -> bool {
        let mut is_rung = false;
        for lane in self.lanes.iter_mut().filter(|lane| lane.has_failed) {
            lane.check_requested = true;
            is_rung = true;
        }
        is_rung && self.start()
    }

    /// Whether consumers wait and the last call for a lane failed and is not being retried.
    pub(in crate::consume::waiters) fn needs_retry(&self) -> bool {
        let is_idle = |lane: &LaneState| !lane.busy && !lane.check_requested;
        let mut failed = self.lanes.iter().filter(|lane| lane.has_failed);
        !self.seats.is_empty() && failed.any(is_idle)
    }

    /// Whether the last call for this lane failed.
    pub(in crate::consume::waiters) fn has_failed(&self, lane: u16) -> bool {
        let lane = self.lanes.get(usize::from(lane));
        lane.is_some_and(|lane| lane.has_failed)
    }

    /// Whether the last call for each of the lanes failed.
    pub(in crate::consume::waiters) fn has_failed_everywhere(&self) -> bool {
        !self.lanes.is_empty() && self.lanes.iter().all(|lane| lane.has_failed)
    }

    /// Whether the last call for at least one lane was answered. Otherwise it is unknown whether the queue has jobs.
    pub(in crate::consume::waiters) fn is_answered(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_answered)
    }
}
