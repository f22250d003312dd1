//! What may happen to the job of a key, whatever the order of the calls. It knows the outcomes that callers got, and
//! nothing of Redis.

use std::collections::BTreeSet;

use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{IfExists, JobId, JobState};
use tidegate_store::{Acked, CancelOutcome, ChangeOutcome, LeasedJob, PromoteOutcome, StoredJob};

use crate::fixture::LOSSES_MAX;

/// Failures after which a job is dead.
pub(super) const ATTEMPTS_MAX: u16 = 2;

/// The job that has the key now.
#[derive(Debug, Clone)]
pub(super) struct JudgedJob {
    pub(super) id: JobId,
    pub(super) state: JobState,
    /// The due time, the end of the lease, or the time until which a job that is done is kept.
    until_ms: u64,
    attempt: u32,
    pub(super) failures: u16,
    pub(super) losses: u16,
    /// The version that runs, or will run next.
    version: u64,
    /// A newer version, and when it is due.
    waiting: Option<(u64, u64)>,
    cancel_requested: bool,
}

/// The history of a key.
#[derive(Debug, Default)]
pub(super) struct OrderJudge {
    pub(super) now_ms: u64,
    pub(super) job: Option<JudgedJob>,
    /// Jobs that are done or cancelled: none of them is delivered again.
    ended: BTreeSet<JobId>,
    /// Deliveries that were settled, whose leases have ended, or that were revoked: none of them holds a job again.
    past: BTreeSet<(JobId, u32)>,
    /// The version of the last delivery that was acknowledged, and of the last one that was made.
    acknowledged: Option<u64>,
    delivered: Option<u64>,
}

/// How the run of a holder ends without an acknowledgement.
enum JudgedEnd {
    Rerun,
    Cancelled,
    Plain,
}

impl OrderJudge {
    pub(super) fn at(now_ms: u64) -> Self {
        Self {
            now_ms,
            ..Self::default()
        }
    }

    /// The state of the job, once what has ended by time is dropped.
    pub(super) fn state(&mut self) -> Option<JobState> {
        let now_ms = self.now_ms;
        self.job
            .take_if(|job| job.state == JobState::Done && job.until_ms <= now_ms);
        self.job.as_ref().map(|job| job.state)
    }

    fn job(&mut self) -> &mut JudgedJob {
        self.job.as_mut().expect("a job with the key")
    }

    fn end(&mut self) {
        if let Some(job) = self.job.take() {
            self.past.insert((job.id, job.attempt));
            assert!(self.ended.insert(job.id), "{} ended twice", job.id);
        }
    }

    /// Whether a delivery holds the job. One that did not once, never does again.
    fn is_held_by(&mut self, leased: LeasedJob) -> bool {
        let is_held = self.state() == Some(JobState::Leased)
            && (self.job().id, self.job().attempt) == (leased.id, leased.attempt);
        let was_past = self.past.contains(&(leased.id, leased.attempt));
        assert!(!(is_held && was_past), "{leased:?} holds a job again");
        is_held
    }

    fn wait_until(&mut self, due_ms: u64) {
        let now_ms = self.now_ms;
        let job = self.job();
        job.until_ms = due_ms;
        job.state = if due_ms > now_ms {
            JobState::Delayed
        } else {
            JobState::Ready
        };
    }

    fn end_run(&mut self) -> JudgedEnd {
        let job = self.job();
        let past = (job.id, job.attempt);
        let (waiting, cancel_requested) = (job.waiting.take(), job.cancel_requested);
        self.past.insert(past);
        if let Some((version, due_ms)) = waiting {
            let job = self.job();
            (job.version, job.failures, job.losses) = (version, 0, 0);
            self.wait_until(due_ms);
            JudgedEnd::Rerun
        } else if cancel_requested {
            self.end();
            JudgedEnd::Cancelled
        } else {
            JudgedEnd::Plain
        }
    }

    pub(super) fn published(
        &mut self,
        if_exists: IfExists,
        version: u64,
        due_ms: u64,
        stored: StoredJob,
    ) {
        let id = stored.id;
        let state = self.state();
        let is_replaced = if_exists == IfExists::Replace;
        let cancels = self.job.as_ref().is_some_and(|job| job.cancel_requested);
        let expected = match state {
            None => PublishResult::Created,
            Some(JobState::Done) if is_replaced => PublishResult::Created,
            Some(JobState::Dead) => PublishResult::Revived,
            Some(JobState::Leased) if is_replaced || cancels => PublishResult::Rerun,
            Some(_) if !is_replaced => PublishResult::Exists,
            Some(_) => PublishResult::Replaced,
        };
        assert_eq!(stored.outcome, expected, "{self:?}");
        match expected {
            PublishResult::Created => {
                assert!(!self.ended.contains(&id), "{id} was used before");
                self.job = Some(JudgedJob {
                    id,
                    state: JobState::Ready,
                    until_ms: 0,
                    attempt: 0,
                    failures: 0,
                    losses: 0,
                    version,
                    waiting: None,
                    cancel_requested: false,
                });
                self.wait_until(due_ms);
            }
            PublishResult::Rerun => {
                let job = self.job();
                (job.waiting, job.cancel_requested) = (Some((version, due_ms)), false);
            }
            PublishResult::Exists => {}
            _ => {
                let job = self.job();
                (job.version, job.failures, job.losses) = (version, 0, 0);
                self.wait_until(due_ms);
            }
        }
        assert_eq!(self.job().id, id, "two jobs with one key");
    }

    /// A call of reserve returned this, or nothing.
    pub(super) fn reserved(&mut self, got: Option<(LeasedJob, u64)>, until_ms: u64) {
        let is_ready = self.state() == Some(JobState::Ready);
        assert_eq!(got.is_some(), is_ready, "{got:?} of {self:?}");
        let Some((leased, version)) = got else { return };
        assert!(!self.ended.contains(&leased.id), "{leased:?} had ended");
        let job = self.job();
        assert_eq!(leased.id, job.id);
        assert!(
            leased.attempt > job.attempt,
            "the attempt of {leased:?} was used"
        );
        assert_eq!(version, job.version, "not the newest version");
        job.state = JobState::Leased;
        (job.attempt, job.until_ms) = (leased.attempt, until_ms);
        self.delivered = Some(version);
    }

    pub(super) fn acked(&mut self, leased: LeasedJob, acked: Acked, retain_ms: u64) {
        let is_held = self.is_held_by(leased);
        if is_held {
            self.acknowledged = Some(self.job().version);
            assert_eq!(self.acknowledged, self.delivered, "not the last that ran");
        }
        match acked.outcome {
            Outcome::DONE => {
                assert!(is_held && acked.was == Some(JobState::Leased), "{self:?}");
                let (now_ms, job) = (self.now_ms, self.job().clone());
                assert_eq!(job.waiting, None, "a newer version is lost");
                self.end();
                let kept = JudgedJob {
                    state: JobState::Done,
                    until_ms: now_ms + retain_ms,
                    ..job
                };
                self.job = (retain_ms > 0).then_some(kept);
            }
            Outcome::Rerun => {
                assert!(is_held, "{self:?}");
                assert!(matches!(self.end_run(), JudgedEnd::Rerun));
            }
            Outcome::Gone => self.not_held(leased, true),
            Outcome::Lost => self.not_held(leased, false),
            other => panic!("{other:?}: {self:?}"),
        }
    }

    /// The caller learned that a delivery does not hold its job, since that is gone, or otherwise.
    fn not_held(&mut self, leased: LeasedJob, is_gone: bool) {
        assert!(!self.is_held_by(leased), "{leased:?} holds {:?}", self.job);
        self.past.insert((leased.id, leased.attempt));
        let state = self.state().filter(|_| self.job().id == leased.id);
        let expected = matches!(state, None | Some(JobState::Done));
        assert_eq!(is_gone, expected, "{leased:?}: {self:?}");
    }

    pub(super) fn failed(&mut self, leased: LeasedJob, for_good: bool, outcome: Outcome) {
        match outcome {
            Outcome::Gone => return self.not_held(leased, true),
            Outcome::Lost => return self.not_held(leased, false),
            _ => assert!(self.is_held_by(leased), "{outcome:?}: {self:?}"),
        }
        match (self.end_run(), outcome) {
            (JudgedEnd::Rerun, Outcome::Rerun) | (JudgedEnd::Cancelled, Outcome::Cancelled) => {
                return;
            }
            (JudgedEnd::Plain, _) => {}
            (_, outcome) => panic!("{outcome:?}: {self:?}"),
        }
        let job = self.job();
        job.failures += 1;
        if for_good || job.failures >= ATTEMPTS_MAX {
            assert_eq!(outcome, Outcome::Dead);
            job.state = JobState::Dead;
        } else if let Outcome::Retry { run_at } = outcome {
            self.wait_until(run_at.as_ms());
        } else {
            panic!("{outcome:?}: {self:?}");
        }
    }

    pub(super) fn touched(&mut self, leased: LeasedJob, outcome: Outcome) {
        match outcome {
            Outcome::Gone => self.not_held(leased, true),
            Outcome::Lost => self.not_held(leased, false),
            Outcome::Extended {
                lease_until,
                cancel_requested,
            } => {
                let until_ms = lease_until.as_ms();
                assert!(self.is_held_by(leased), "{self:?}");
                let job = self.job();
                assert_eq!(cancel_requested, job.cancel_requested);
                assert!(until_ms >= job.until_ms, "a shorter lease");
                job.until_ms = until_ms;
            }
            other => panic!("{other:?}: {self:?}"),
        }
    }

    pub(super) fn released(&mut self, leased: LeasedJob, due_ms: u64, outcome: Outcome) {
        match outcome {
            Outcome::Gone => return self.not_held(leased, true),
            Outcome::Lost => return self.not_held(leased, false),
            _ => assert!(self.is_held_by(leased), "{outcome:?}: {self:?}"),
        }
        match (self.end_run(), outcome) {
            (JudgedEnd::Rerun, Outcome::Rerun) | (JudgedEnd::Cancelled, Outcome::Cancelled) => {}
            (JudgedEnd::Plain, Outcome::Released) => self.wait_until(due_ms),
            (_, outcome) => panic!("{outcome:?}: {self:?}"),
        }
    }

    pub(super) fn cancelled(&mut self, outcome: CancelOutcome) {
        let state = self.state();
        match outcome {
            CancelOutcome::Done { id, was } => {
                assert_eq!((Some(was), self.job().id), (state, id));
                assert_ne!(was, JobState::Done);
                self.end();
            }
            CancelOutcome::Requested(id) => {
                assert_eq!((state, self.job().id), (Some(JobState::Leased), id));
                let job = self.job();
                (job.cancel_requested, job.waiting) = (true, None);
            }
            CancelOutcome::AlreadyDone(id) => {
                assert_eq!((state, self.job().id), (Some(JobState::Done), id));
            }
            CancelOutcome::AlreadyGone => assert_eq!(state, None),
            CancelOutcome::Leased => assert_eq!(state, Some(JobState::Leased)),
        }
    }

    pub(super) fn promoted(&mut self, outcome: PromoteOutcome) {
        let state = self.state();
        match outcome {
            PromoteOutcome::Done(promoted) => {
                let before = if promoted.was_delayed {
                    JobState::Delayed
                } else {
                    JobState::Ready
                };
                assert_eq!(state, Some(before));
                self.wait_until(self.now_ms);
            }
            PromoteOutcome::AlreadyGone => assert_eq!(state, None),
            PromoteOutcome::NotWaiting(now) => self.not_waiting(now),
        }
    }

    pub(super) fn changed(&mut self, due_ms: u64, outcome: &ChangeOutcome) {
        match outcome {
            ChangeOutcome::Done(job) => {
                assert!(matches!(
                    self.state(),
                    Some(JobState::Delayed | JobState::Ready)
                ));
                assert_eq!(job.due_at_ms, due_ms);
                self.wait_until(due_ms);
            }
            ChangeOutcome::AlreadyGone => assert_eq!(self.state(), None),
            ChangeOutcome::NotWaiting(now) => self.not_waiting(*now),
        }
    }

    fn not_waiting(&mut self, state: JobState) {
        assert_eq!(self.state(), Some(state));
        assert!(!matches!(state, JobState::Delayed | JobState::Ready));
    }

    pub(super) fn respawned(&mut self, jobs: u64) {
        let is_dead = self.state() == Some(JobState::Dead);
        assert_eq!(jobs, u64::from(is_dead), "{self:?}");
        if is_dead {
            let job = self.job();
            (job.failures, job.losses) = (0, 0);
            self.wait_until(self.now_ms);
        }
    }

    /// A pump has done all that is due.
    pub(super) fn moved(&mut self) {
        let now_ms = self.now_ms;
        let state = self.state();
        if self.job.as_ref().is_none_or(|job| job.until_ms > now_ms) {
            return;
        }
        match state {
            Some(JobState::Delayed) => self.job().state = JobState::Ready,
            Some(JobState::Leased) => {
                if !matches!(self.end_run(), JudgedEnd::Plain) {
                    return;
                }
                let job = self.job();
                job.losses += 1;
                job.state = if job.losses >= LOSSES_MAX {
                    JobState::Dead
                } else {
                    JobState::Ready
                };
            }
            _ => {}
        }
    }

    /// Everything is consumed: the last version that ran is the last that was published and not cancelled.
    pub(super) fn finished(&mut self) {
        assert_eq!(self.state(), None, "{self:?}");
    }
}
