//! Doorbells and registrations of a wait queue.
//!
//! A lane for which the process is registered is empty, or its jobs have rung another process, which takes them or
//! passes the doorbell on. So consumers that arrive meanwhile need no round of their own. A doorbell ends the
//! registration; the next round that finds the lane empty renews it.

use super::WaitQueue;
use super::lane_state::LaneState;

impl WaitQueue {
    /// Whether a seat that arrives now need not check the lanes.
    pub(super) fn is_known_to_be_empty(&self) -> bool {
        let last = self.seats.last_key_value().map(|(ticket, _)| *ticket);
        let is_empty = |lane: &LaneState| {
            lane.is_registered
                && !lane.check_requested
                && last.is_none_or(|last| last < lane.checked_below)
        };
        !self.lanes.is_empty() && self.lanes.iter().all(is_empty)
    }

    /// Records a doorbell for a lane. Returns whether the caller must start a serve loop.
    pub(in crate::consume::waiters) fn doorbell(&mut self, lane: Option<u16>) -> bool {
        let rung = lane.and_then(|lane| self.lanes.get_mut(usize::from(lane)));
        if let Some(rung) = rung {
            rung.is_rung = true;
        }
        self.ring(lane)
    }

    /// The lanes whose doorbells are not followed by a round because no consumer is left. The caller must pass them on.
    pub(in crate::consume::waiters) fn take_unserved(&mut self) -> Vec<u16> {
        if !self.seats.is_empty() {
            return Vec::new();
        }
        let lanes = (0..).zip(&mut self.lanes);
        let unserved =
            lanes.filter_map(|(number, lane)| std::mem::take(&mut lane.is_rung).then_some(number));
        unserved.collect()
    }

    /// Records that the process was registered for a lane by a poll, unless something has happened since `events`.
    pub(in crate::consume::waiters) fn registered(&mut self, lane: u16, events: u64) {
        if let Some(lane) = self.lanes.get_mut(usize::from(lane)) {
            lane.is_registered |= lane.events == events;
        }
    }

    /// The lanes for which the process is registered without a consumer; they are not any more. The caller must
    /// withdraw.
    pub(in crate::consume::waiters) fn take_registrations(&mut self) -> Vec<u16> {
        let lanes = (0..).zip(&mut self.lanes);
        let registered = lanes.filter(|(_, lane)| lane.is_registered);
        let taken = registered.map(|(number, lane)| {
            lane.forget_registration();
            number
        });
        taken.collect()
    }
}
