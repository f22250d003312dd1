//! The state of one lane of a wait queue.

/// The number of jobs that a call may claim. Most doorbells announce one job, and claims for a hundred seats would cost
/// more than that job. So a call claims a few jobs, and the next one twice as many after all claims were filled. The
/// first claim is never reduced.
const REACH_MIN: usize = 8;
const REACH_MAX: usize = 100;

/// The state of one lane of the queue.
#[derive(Debug)]
pub(super) struct LaneState {
    /// For seats with lower tickets this lane was checked by a round that began after their arrival.
    pub(super) checked_below: u64,
    /// Whether the last call failed.
    pub(super) has_failed: bool,
    /// Whether the last call was answered.
    pub(super) is_answered: bool,
    /// Whether an event requires another round.
    pub(super) check_requested: bool,
    /// Whether the process is registered for the lane: as long as it is, a doorbell follows when the lane has jobs.
    pub(super) is_registered: bool,
    /// Whether a doorbell has rung and no round has begun since.
    pub(super) is_rung: bool,
    /// The number of events after which an answer that is on its way says nothing about the registration.
    pub(super) events: u64,
    /// Whether a round is in flight.
    pub(super) busy: bool,
    /// The most jobs that the next round may claim.
    pub(super) claim_max: usize,
}

impl Default for LaneState {
    fn default() -> Self {
        Self {
            checked_below: 0,
            has_failed: false,
            is_answered: false,
            check_requested: false,
            is_registered: false,
            is_rung: false,
            events: 0,
            busy: false,
            claim_max: REACH_MIN,
        }
    }
}

impl LaneState {
    pub(super) fn ring(&mut self) {
        self.check_requested = true;
        self.forget_registration();
    }

    pub(super) fn forget_registration(&mut self) {
        self.is_registered = false;
        self.events += 1;
    }

    /// A round has filled all its claims: there may be more jobs, for the seats that were not in it.
    pub(super) fn record_filled(&mut self) {
        self.check_requested = true;
        self.claim_max = (self.claim_max * 2).min(REACH_MAX);
    }

    /// A round has emptied the lane, so seats with tickets below `below` that were not in it would not have got a job
    /// either.
    pub(super) fn record_emptied(&mut self, below: u64) {
        self.checked_below = self.checked_below.max(below);
        self.claim_max = REACH_MIN;
    }
}
