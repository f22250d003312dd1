//! The outcomes of the verbs of consumers.

use bytes::Bytes;
use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{JobId, JobState, RetryPolicy, RetrySteps};
use tidegate_store::{AckRequest, Acked, AfterFailure, FailRequest, FailureEffect, LeasedJob};

use super::{ModelJob, NativeModel, NotHeld, RunEnd};

/// How long a job stays at least, once it is done, if a client waits for its end.
const AWAITED_MS: u64 = 10_000;

/// The result of a failure.
pub(in super::super) enum FailEffect {
    NotHeld(NotHeld),
    Rerun,
    Cancelled,
    Dead,
    /// The delay is this long, and may be longer by this part, in thousandths.
    Retry {
        delay_ms: u64,
        jitter_permille: u64,
    },
}

impl NativeModel {
    pub(in super::super) fn reserve(&mut self, id: JobId, lease_ms: u64) -> &ModelJob {
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(&id).expect("a ready job");
        job.state = JobState::Leased;
        job.attempt += 1;
        if job.is_native {
            job.version.expires_ms = 0;
        } else {
            job.tries -= 1;
        }
        job.version.due_ms = now_ms + lease_ms;
        job
    }

    pub(in super::super) fn ack(
        &mut self,
        queue: usize,
        request: &AckRequest,
        retain_ms: u64,
    ) -> Acked {
        let now_ms = self.now_ms;
        let id = request.id;
        let age_ms = now_ms - id.created_at_ms().min(now_ms);
        let refused = |outcome| Acked {
            outcome,
            was: None,
            age_ms: 0,
        };
        let Some(id) = self.named(queue, id.into()) else {
            return refused(Outcome::Gone);
        };
        let job = self.jobs.get_mut(&id).expect("a named job");
        if job.state == JobState::Done {
            return refused(Outcome::Gone);
        }
        if job.is_expired(now_ms) {
            self.delete(id);
            return refused(Outcome::Gone);
        }
        let is_leased = job.state == JobState::Leased;
        let may_ack = match request.attempt {
            Some(attempt) => is_leased && job.attempt == attempt,
            None => true,
        };
        if !may_ack {
            return refused(Outcome::Lost);
        }
        let was = job.state;
        if job.next.is_some() {
            assert_eq!(self.end_run(id), RunEnd::Rerun);
            return Acked {
                outcome: Outcome::Rerun,
                was: None,
                age_ms,
            };
        }
        let own_ms = job.version.extension.retain_ms.map(u64::from);
        let awaited_ms = if job.is_awaited { AWAITED_MS } else { 0 };
        let kept_ms = own_ms.unwrap_or(retain_ms).max(awaited_ms);
        // Only a job of the native API that a worker has done is kept.
        if kept_ms > 0 && is_leased && job.is_native {
            job.state = JobState::Done;
            job.cancel_requested = false;
            job.version.body = Bytes::new();
            job.version.due_ms = now_ms;
            job.version.expires_ms = now_ms + kept_ms;
            job.result = request.result.clone();
            if job.is_awaited {
                self.ended.push(id.number());
            }
        } else {
            self.delete(id);
        }
        Acked {
            outcome: Outcome::DONE,
            was: Some(was),
            age_ms,
        }
    }

    pub(in super::super) fn touch(
        &mut self,
        queue: usize,
        leased: LeasedJob,
        lease_ms: Option<u64>,
        default_ms: u64,
    ) -> Outcome {
        let now_ms = self.now_ms;
        let job = match self.held(queue, leased) {
            Ok(job) => job,
            Err(NotHeld::Gone) => return Outcome::Gone,
            Err(NotHeld::Lost) => return Outcome::Lost,
        };
        let own_ms = job.version.extension.lease_ms.map(u64::from);
        let until_ms = now_ms + lease_ms.or(own_ms).unwrap_or(default_ms);
        job.version.due_ms = job.version.due_ms.max(until_ms);
        Outcome::Extended {
            lease_until: Timestamp::saturating(job.version.due_ms),
            cancel_requested: job.cancel_requested,
        }
    }

    pub(in super::super) fn release(
        &mut self,
        queue: usize,
        leased: LeasedJob,
        delay_ms: u64,
    ) -> Outcome {
        let now_ms = self.now_ms;
        match self.held(queue, leased) {
            Ok(_) => {}
            Err(NotHeld::Gone) => return Outcome::Gone,
            Err(NotHeld::Lost) => return Outcome::Lost,
        }
        match self.end_run(leased.id) {
            RunEnd::Rerun => return Outcome::Rerun,
            RunEnd::Cancelled => return Outcome::Cancelled,
            RunEnd::Plain => {}
        }
        let job = self.jobs.get_mut(&leased.id).expect("a held job");
        if !job.is_native {
            job.tries += 1;
        }
        job.schedule(now_ms + delay_ms, now_ms);
        Outcome::Released
    }

    /// A retry is scheduled with [`Self::retry`], since the delay may be random.
    pub(in super::super) fn fail(
        &mut self,
        queue: usize,
        failed: &FailRequest,
        policy: &RetryPolicy,
    ) -> FailEffect {
        let now_ms = self.now_ms;
        if let Err(why) = self.held(queue, failed.job) {
            return FailEffect::NotHeld(why);
        }
        match self.end_run(failed.job.id) {
            RunEnd::Rerun => return FailEffect::Rerun,
            RunEnd::Cancelled => return FailEffect::Cancelled,
            RunEnd::Plain => {}
        }
        let job = self.jobs.get_mut(&failed.job.id).expect("a held job");
        let own = &job.version.extension;
        let (failures, is_last) = if job.is_native {
            job.failures += 1;
            let most = own.max_attempts.unwrap_or(policy.max_attempts);
            (u32::from(job.failures), job.failures >= most)
        } else {
            (job.attempt, job.tries == 0)
        };
        let is_for_good = failed.then == AfterFailure::Bury;
        if is_for_good || is_last {
            let effect = if is_for_good {
                FailureEffect::DeadForGood
            } else {
                FailureEffect::Dead
            };
            job.log(effect, &failed.error, now_ms);
            self.bury(failed.job.id);
            return FailEffect::Dead;
        }
        let delays = own.retry.as_ref().unwrap_or(&policy.delays);
        match failed.then {
            AfterFailure::RetryInMs(delay_ms) => FailEffect::Retry {
                delay_ms,
                jitter_permille: 0,
            },
            _ => FailEffect::Retry {
                delay_ms: delay_after(&delays.steps, failures),
                jitter_permille: delays.jitter_permille.into(),
            },
        }
    }

    /// Schedules the next attempt of a job that has failed.
    pub(in super::super) fn retry(&mut self, id: JobId, due_ms: u64, error: &str) {
        let now_ms = self.now_ms;
        let job = self.jobs.get_mut(&id).expect("a job that failed");
        job.log(FailureEffect::Retried, error, now_ms);
        job.schedule(due_ms, now_ms);
    }
}

/// The delay after a number of failures, in ms.
fn delay_after(steps: &RetrySteps, failures: u32) -> u64 {
    match steps {
        RetrySteps::Listed(delays) => delays[(failures as usize).min(delays.len()) - 1],
        RetrySteps::Growing {
            first_ms,
            factor,
            max_ms,
        } => {
            let grown = *first_ms as f64 * factor.powf(f64::from(failures) - 1.0);
            (grown.round() as u64).min(*max_ms)
        }
    }
}
