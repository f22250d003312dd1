//! Runs of jobs with a key: what is counted, how they end, and what is left of them.

use std::time::Duration;

use bytes::Bytes;
use tidegate_core::v1::FieldChange;
use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::publish::DueTime;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::v1::values::DurationMs;
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{Failures, IfExists, IfRunning, JobState, RetryPolicy};
use tidegate_core::{RetryDelays, RetrySteps};
use tidegate_store::{
    AfterFailure, CancelOutcome, ChangeOutcome, Claim, FailRequest, FailureEffect, KeyedCall,
    LeaseLength, LeasedJob, PublishJob, PublishRefusal, PublishReply,
};

use super::{TERMS, results};
use crate::fixture::{LOSSES_MAX, START, StoreFixture, fixture};

const LEASE_MS: u64 = 60_000;

fn policy() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 3,
        delays: RetryDelays {
            steps: RetrySteps::Listed(vec![1000, 5000]),
            jitter_permille: 0,
        },
    }
}

impl StoreFixture {
    /// Publishes a job with the key `a`; `options` may change it.
    async fn publish_a(&self, now_ms: u64, options: impl FnOnce(&mut PublishJob)) -> PublishResult {
        let mut job = self.keyed("a", IfExists::Replace, "x", 0);
        options(&mut job);
        self.publish_keyed(now_ms, job).await.outcome
    }

    async fn fail(&self, now_ms: u64, job: LeasedJob, then: AfterFailure) -> Outcome {
        let failed = [FailRequest {
            job,
            then,
            error: format!("attempt {}", job.attempt),
        }];
        let store = self.store.at(now_ms);
        store
            .fail_all(&self.queue, &failed, &policy())
            .await
            .unwrap()[0]
    }

    /// Publishes a job that fails so often, and returns the delay after each failure.
    async fn delays_after_failures(
        &self,
        failures: usize,
        steps: RetrySteps,
        jitter_permille: u16,
    ) -> Vec<u64> {
        let options = |new: &mut PublishJob| {
            let extension = &mut new.job.native.as_mut().unwrap().extension;
            extension.max_attempts = Some(100);
            // It is behind the delays in the record.
            extension.retain_ms = Some(5000);
            extension.retry = Some(RetryDelays {
                steps,
                jitter_permille,
            });
        };
        self.publish_a(START, options).await;
        let (mut now_ms, mut delays) = (START, Vec::new());
        for _ in 0..failures {
            let (leased, _) = self.lease_one(now_ms).await;
            let failed = self.fail(now_ms, leased, AfterFailure::RetryAsConfigured);
            let Outcome::Retry { run_at } = failed.await else {
                panic!("attempts are left");
            };
            let due_at_ms = run_at.as_ms();
            delays.push(due_at_ms - now_ms);
            now_ms = due_at_ms;
            self.move_due(now_ms).await;
        }
        delays
    }

    async fn touch(&self, now_ms: u64, job: LeasedJob, lease_ms: Option<u64>) -> u64 {
        let (store, leases) = (self.store.at(now_ms), [job]);
        let touched = store.touch_all(&self.queue, &leases, lease_ms, LEASE_MS);
        match touched.await.unwrap()[0] {
            Outcome::Extended { lease_until, .. } => lease_until.as_ms(),
            other => panic!("{other:?}"),
        }
    }

    async fn failures(&self, now_ms: u64) -> (JobState, Failures) {
        let store = self.store.at(now_ms);
        let peeked = store.peek_job(&self.queue, self.key("a")).await.unwrap();
        let job = peeked.unwrap().job;
        (job.state, job.failures.unwrap())
    }

    async fn change_a(&self, now_ms: u64, change: JobChange) -> u64 {
        let store = self.store.at(now_ms);
        let changed = store.change(&self.queue, self.key("a"), change).await;
        match changed.unwrap() {
            ChangeOutcome::Done(job) => job.expires_at_ms,
            other => panic!("{other:?}"),
        }
    }
}

const fn counted(failures: u16, losses: u16) -> Failures {
    Failures { failures, losses }
}

#[tokio::test]
async fn failures_losses_and_releases_are_counted_separately() {
    let f = fixture().await;
    f.publish_a(START, |_| {}).await;
    let (leased, _) = f.lease_one(START).await;
    let store = f.store.at(START);
    let released = store.release(&f.queue, leased.id, leased.attempt).await;
    assert_eq!(released.unwrap(), Outcome::Released);
    assert_eq!(f.failures(START).await, (JobState::Ready, counted(0, 0)));
    f.lease_one(START).await;
    let now_ms = START + LEASE_MS;
    assert_eq!(f.move_due(now_ms).await.ready, 1);
    assert_eq!(f.failures(now_ms).await, (JobState::Ready, counted(0, 1)));
    let (leased, _) = f.lease_one(now_ms).await;
    assert_eq!(leased.attempt, 3);
    let failed = f.fail(now_ms, leased, AfterFailure::RetryAsConfigured);
    let due_at_ms = now_ms + 1000;
    let run_at = Timestamp::saturating(due_at_ms);
    assert_eq!(failed.await, Outcome::Retry { run_at });
    assert_eq!(f.failures(now_ms).await, (JobState::Delayed, counted(1, 1)));
    let mut now_ms = due_at_ms;
    f.move_due(now_ms).await;
    for losses in 2..=LOSSES_MAX {
        f.lease_one(now_ms).await;
        now_ms += LEASE_MS;
        f.move_due(now_ms).await;
        let state = if losses < LOSSES_MAX {
            JobState::Ready
        } else {
            JobState::Dead
        };
        assert_eq!(f.failures(now_ms).await, (state, counted(1, losses)));
    }
}

#[tokio::test]
async fn a_dead_job_is_revived_with_new_counters_and_its_attempts_continue() {
    let f = fixture().await;
    let publish = async || {
        f.publish_a(START, |new| {
            let native = new.job.native.as_mut().unwrap();
            native.extension.max_attempts = Some(1);
        })
        .await
    };
    assert_eq!(publish().await, PublishResult::Created);
    let (first, _) = f.lease_one(START).await;
    let failed = f.fail(START, first, AfterFailure::RetryAsConfigured).await;
    assert_eq!(failed, Outcome::Dead);
    assert_eq!(publish().await, PublishResult::Revived);
    assert_eq!(f.failures(START).await, (JobState::Ready, counted(0, 0)));
    let (second, _) = f.lease_one(START).await;
    assert_eq!((second.id, second.attempt), (first.id, 2));
    let late = f.fail(START, first, AfterFailure::Bury).await;
    assert_eq!(late, Outcome::Lost);
}

#[tokio::test]
async fn the_history_has_the_last_ten_failures() {
    let f = fixture().await;
    f.publish_a(START, |new| {
        let native = new.job.native.as_mut().unwrap();
        native.extension.max_attempts = Some(100);
    })
    .await;
    let mut id = None;
    for _ in 0..12 {
        let (leased, _) = f.lease_one(START).await;
        let _ = f.fail(START, leased, AfterFailure::RetryInMs(0)).await;
        id = Some(leased.id);
    }
    let history = f.store.history(id.unwrap()).await.unwrap();
    let attempts: Vec<u32> = history.iter().map(|failure| failure.attempt).collect();
    assert_eq!(attempts, (3..=12).collect::<Vec<_>>());
    let last = history.last().unwrap();
    assert_eq!(
        (last.effect, last.error.as_str()),
        (FailureEffect::Retried, "attempt 12")
    );
}

#[tokio::test]
async fn a_touch_never_shortens_a_lease_and_a_job_may_have_its_own_length() {
    let f = fixture().await;
    f.publish_a(START, |new| {
        let native = new.job.native.as_mut().unwrap();
        native.extension.lease_ms = Some(7000);
    })
    .await;
    let claims = [Claim {
        count: 1,
        lease: LeaseLength::OfJobOrMs(LEASE_MS),
    }];
    let store = f.store.at(START);
    let reserved = store.reserve(&f.queue, &claims).await.unwrap();
    let job = &reserved.jobs[0][0];
    assert_eq!(job.due_at_ms, START + 7000);
    let leased = LeasedJob {
        id: job.id,
        attempt: job.attempt,
    };
    assert_eq!(f.touch(START + 10, leased, Some(100)).await, START + 7000);
    assert_eq!(f.touch(START + 10, leased, None).await, START + 7010);
    assert_eq!(f.move_due(START + 7009).await.ready, 0);
    assert_eq!(f.move_due(START + 7010).await.ready, 1);
}

#[tokio::test]
async fn a_limit_to_start_moves_with_the_due_time_and_ends_with_the_start() {
    let f = fixture().await;
    f.publish_a(START, |new| new.job.ttl_ms = 1000).await;
    let due = |ms| JobChange::from(DueTime::After(DurationMs::saturating(ms)));
    // Each change counts from the due time that it sets, however late it comes.
    assert_eq!(f.change_a(START + 500, due(0)).await, START + 1500);
    assert_eq!(f.change_a(START + 900, due(0)).await, START + 1900);
    let limit = JobChange {
        start_within: FieldChange::Set(DurationMs::saturating(2000)),
        ..JobChange::default()
    };
    assert_eq!(f.change_a(START + 1000, limit).await, START + 3000);
    assert_eq!(f.change_a(START + 1100, due(9000)).await, START + 12_100);
    assert_eq!(f.change_a(START + 1100, due(5000)).await, START + 8100);
    let nothing = JobChange::default();
    assert_eq!(f.change_a(START + 1200, nothing).await, START + 8100);
    assert_eq!(f.move_due(START + 6099).await.ready, 0);
    assert_eq!(f.move_due(START + 6100).await.ready, 1, "the earlier time");
    let (leased, _) = f.lease_one(START + 6100).await;
    f.sweep(START + 20_000).await;
    assert!(f.touch(START + 20_000, leased, None).await > START + 20_000);
}

#[tokio::test]
async fn a_full_queue_takes_new_versions_of_unfinished_jobs_only() {
    let f = fixture().await;
    let publish = async |jobs: Vec<PublishJob>, atomic| {
        let call = KeyedCall {
            max_jobs: Some(1),
            atomic,
            ..TERMS
        };
        f.publish_all(START, jobs, call).await
    };
    let replace = |key| f.keyed(key, IfExists::Replace, "x", 0);
    let keep = |key| f.keyed(key, IfExists::Keep, "x", 0);
    let outcome = async |job| {
        let result = results(publish(vec![job], false).await)[0];
        result.map(|job| job.outcome)
    };
    f.publish_a(START, |_| {}).await;
    let (leased, _) = f.lease_one(START).await;
    let _ = f.ack_leased(START, leased, 60_000).await;
    assert_eq!(outcome(replace("b")).await, Ok(PublishResult::Created));
    assert_eq!(outcome(replace("b")).await, Ok(PublishResult::Replaced));
    assert_eq!(outcome(replace("a")).await, Err(PublishRefusal::QueueFull));
    assert_eq!(outcome(keep("a")).await, Ok(PublishResult::Exists));
    let both = publish(vec![keep("a"), replace("a")], true).await;
    let PublishReply::Refused { index, refusal } = both else {
        panic!("a part of an atomic call: {both:?}")
    };
    assert_eq!((index, refusal), (1, PublishRefusal::QueueFull));
}

#[tokio::test]
async fn a_job_that_has_lost_its_key_does_not_free_that_of_another() {
    let f = fixture().await;
    f.publish_a(START, |_| {}).await;
    let (leased, _) = f.lease_one(START).await;
    let key = f.key("a");
    let mut delete = redis::cmd("HDEL");
    delete.arg(format!("tg:0:{{8209}}:k:{}", key.shard()));
    delete.arg(&key.0[..]).exec(&mut f.connection()).unwrap();
    let job = f.keyed("a", IfExists::Keep, "2", 0);
    let second = f.publish_keyed(START, job).await;
    assert_eq!(second.outcome, PublishResult::Created);
    let _ = f.ack_leased(START, leased, 0).await;
    let store = f.store.at(START);
    let peeked = store.peek_job(&f.queue, key).await.unwrap();
    assert_eq!(peeked.map(|peeked| peeked.job.id), Some(second.id));
}

#[tokio::test]
async fn a_revoked_job_is_gone_with_its_waiting_version_and_history() {
    let f = fixture().await;
    let body: String = (0..20_000).map(|number| number.to_string()).collect();
    let body = Bytes::from(body);
    f.publish_a(START, |new| new.job.body = body.clone()).await;
    let (leased, _) = f.lease_one(START).await;
    let _ = f.fail(START, leased, AfterFailure::RetryInMs(0)).await;
    let (leased, _) = f.lease_one(START).await;
    let waiting = f.publish_a(START, |new| new.job.body = body.clone()).await;
    assert_eq!(waiting, PublishResult::Rerun);
    let store = f.store.at(START);
    let revoked = store.cancel(&f.queue, f.key("a"), IfRunning::Revoke).await;
    let (id, was) = (leased.id, JobState::Leased);
    assert_eq!(revoked.unwrap(), CancelOutcome::Done { id, was });
    assert_eq!(f.keys_of_jobs(), Vec::<String>::new());
    let late = f.fail(START, leased, AfterFailure::RetryAsConfigured).await;
    assert_eq!(late, Outcome::Gone);
}

/// Delays are chosen at random; of 40, some are in the lower and some in the upper half.
#[tokio::test]
async fn jitter_makes_a_delay_longer_and_never_shorter() {
    let f = fixture().await;
    let delays = f.delays_after_failures(40, RetrySteps::Listed(vec![1000]), 1000);
    let delays = delays.await;
    assert!(
        delays.iter().all(|ms| (1000..=2000).contains(ms)),
        "{delays:?}"
    );
    assert!(delays.iter().any(|ms| *ms < 1500), "{delays:?}");
    assert!(delays.iter().any(|ms| *ms > 1500), "{delays:?}");
}

#[tokio::test]
async fn the_last_delay_of_a_list_repeats() {
    let f = fixture().await;
    let listed = RetrySteps::Listed(vec![1000, 5000]);
    let delays = f.delays_after_failures(4, listed, 0).await;
    assert_eq!(delays, [1000, 5000, 5000, 5000]);
}

/// The rule is stored, so the number of failures does not limit the growth.
#[tokio::test]
async fn delays_grow_up_to_the_longest_one_however_many_failures_it_takes() {
    let f = fixture().await;
    let growing = RetrySteps::Growing {
        first_ms: 1000,
        factor: 1.1,
        max_ms: 30_000,
    };
    let delays = f.delays_after_failures(40, growing, 0).await;
    let expected = (0..40).map(|failures| (1000.0 * 1.1_f64.powi(failures)).round() as u64);
    let expected: Vec<u64> = expected.map(|delay_ms| delay_ms.min(30_000)).collect();
    assert_eq!(delays, expected);
    assert_eq!(delays.last(), Some(&30_000));
}

/// A job that was revived and died again has its old hint at the head of the dead letter.
#[tokio::test]
async fn old_dead_jobs_are_deleted_although_a_younger_one_is_before_them() {
    let f = fixture().await;
    let die = async |key: &str, now_ms| {
        let job = f.keyed(key, IfExists::Keep, "x", 0);
        f.publish_keyed(now_ms, job).await;
        let (leased, _) = f.lease_one(now_ms).await;
        let failed = f.fail(now_ms, leased, AfterFailure::Bury).await;
        assert_eq!(failed, Outcome::Dead);
    };
    for (key, after_ms) in [("young", 0), ("old", 10), ("older", 20), ("young", 5000)] {
        die(key, START + after_ms).await;
    }
    let purged = f.store.at(START + 6000);
    let purged = purged.purge_dead_after(&f.queue, Duration::from_secs(3));
    assert_eq!(purged.await.unwrap(), 2);
    assert_eq!(f.counts().await, [0, 0, 0, 1]);
    let rest = f.store.at(START + 9000);
    let rest = rest.purge_dead_after(&f.queue, Duration::from_secs(3));
    assert_eq!(rest.await.unwrap(), 1);
}
