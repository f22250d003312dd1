//! Jobs with a key: one job for its whole life, whatever happens to a publish with the same key.

mod results;
mod runs;

use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::publish::DueTime;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{IfExists, IfRunning, RecordExtension};
use tidegate_core::{JobId, JobState, KeyHash, NativeOptions, NewJob};
use tidegate_store::{
    AckRequest, CancelOutcome, Claim, IdempotentRequest, KeyPlace, KeyedCall, LeasedJob,
    PromoteOutcome, Promoted, PublishJob, PublishRefusal, PublishReply, StoredJob,
};

use crate::fixture::{START, StoreFixture, fixture, job};
use crate::outside_bodies::{sized, uploads};

const TERMS: KeyedCall = KeyedCall {
    max_jobs: None,
    is_closed: false,
    place: KeyPlace::FIRST_LANE,
    asks: false,
    idempotency_window_ms: 600_000,
    atomic: false,
};

impl StoreFixture {
    fn key(&self, key: &str) -> KeyHash {
        KeyHash::of_job(&self.queue, key)
    }

    pub(crate) fn keyed(
        &self,
        key: &str,
        if_exists: IfExists,
        body: &str,
        delay_ms: u64,
    ) -> PublishJob {
        let extension = RecordExtension {
            key_hash: Some(self.key(key).0),
            ..RecordExtension::default()
        };
        PublishJob {
            job: NewJob {
                delay_ms,
                tries: 0,
                native: Some(Box::new(NativeOptions {
                    extension,
                    ..NativeOptions::default()
                })),
                ..job(body)
            },
            if_exists,
            idempotency: None,
        }
    }

    async fn publish_all(
        &self,
        now_ms: u64,
        jobs: Vec<PublishJob>,
        call: KeyedCall,
    ) -> PublishReply {
        let store = self.store.at(now_ms);
        store.publish_keyed(&self.queue, jobs, call).await.unwrap()
    }

    /// Publishes a job that is not refused.
    pub(crate) async fn publish_keyed(&self, now_ms: u64, job: PublishJob) -> StoredJob {
        self.try_publish_keyed(now_ms, job).await.unwrap()
    }

    async fn try_publish_keyed(
        &self,
        now_ms: u64,
        job: PublishJob,
    ) -> Result<StoredJob, PublishRefusal> {
        results(self.publish_all(now_ms, vec![job], TERMS).await)[0]
    }

    async fn lease_one(&self, now_ms: u64) -> (LeasedJob, String) {
        let store = self.store.at(now_ms);
        let reserved = store
            .reserve(&self.queue, &[Claim::new(1, 60_000)])
            .await
            .unwrap();
        let job = &reserved.jobs[0][0];
        let leased = LeasedJob {
            id: job.id,
            attempt: job.attempt,
        };
        (leased, String::from_utf8(job.body.to_vec()).unwrap())
    }

    async fn ack_leased(&self, now_ms: u64, job: LeasedJob, retain_ms: u64) -> Outcome {
        let request = AckRequest::from(job);
        let store = self.store.at(now_ms);
        store
            .ack_all(&self.queue, &[request], retain_ms)
            .await
            .unwrap()[0]
            .outcome
    }
}

fn results(reply: PublishReply) -> Vec<Result<StoredJob, PublishRefusal>> {
    match reply {
        PublishReply::Done { jobs, .. } => jobs,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_waiting_job_is_kept_replaced_or_the_new_one_refused() {
    let f = fixture().await;
    let publish = async |if_exists, body, delay_ms| {
        let job = f.keyed("order-17", if_exists, body, delay_ms);
        f.try_publish_keyed(START, job).await
    };
    let first = publish(IfExists::Keep, "1", 5000).await.unwrap();
    assert_eq!(first.outcome, PublishResult::Created);
    let id = first.id;
    assert_eq!(f.key("order-17").nonce(), id.nonce());
    for (if_exists, outcome) in [
        (IfExists::Keep, Ok(PublishResult::Exists)),
        (IfExists::Reject, Err(PublishRefusal::KeyTaken)),
        (IfExists::Replace, Ok(PublishResult::Replaced)),
    ] {
        let published = publish(if_exists, "2", 9000).await;
        assert_eq!(published.map(|job| job.outcome), outcome);
    }
    assert_eq!(f.counts().await, [1, 0, 0, 0]);
    let store = f.store.at(START);
    let peeked = store.peek_job(&f.queue, f.key("order-17"));
    let replaced = peeked.await.unwrap().unwrap().job;
    assert_eq!((replaced.id, &replaced.body[..]), (id, &b"2"[..]));
    assert_eq!(f.move_due(START + 5001).await.ready, 0, "the old time");
    assert_eq!(f.move_due(START + 9000).await.ready, 1);
    f.expect(START + 9000, &["2"]).await;
}

#[tokio::test]
async fn a_job_that_is_replaced_while_it_runs_runs_again_with_the_last_version() {
    let f = fixture().await;
    let replace = |body: &str| f.keyed("a", IfExists::Replace, body, 0);
    let first = f.publish_keyed(START, replace("1")).await;
    let (leased, body) = f.lease_one(START).await;
    assert_eq!(body, "1");
    for body in ["2", "3"] {
        let result = f.publish_keyed(START, replace(body)).await;
        assert_eq!(result.outcome, PublishResult::Rerun);
        assert_eq!(result.id, first.id);
    }
    assert_eq!(f.counts().await, [0, 0, 1, 0], "not under two leases");
    let acked = f.ack_leased(START, leased, 0).await;
    assert_eq!(acked, Outcome::Rerun);
    let (again, body) = f.lease_one(START).await;
    assert_eq!(
        (again.id, again.attempt, body.as_str()),
        (leased.id, 2, "3")
    );
    let acked = f.ack_leased(START, again, 0).await;
    assert_eq!(acked, Outcome::DONE);
    let free = f.publish_keyed(START, replace("4")).await;
    assert_eq!(free.outcome, PublishResult::Created);
    assert_ne!(free.id, first.id);
}

#[tokio::test]
async fn the_later_of_cancel_and_replace_wins() {
    let f = fixture().await;
    let replace = |body: &str| f.keyed("a", IfExists::Replace, body, 0);
    f.publish_keyed(START, replace("1")).await;
    let (leased, _) = f.lease_one(START).await;
    let cancel = async || {
        let store = f.store.at(START);
        let key = f.key("a");
        store.cancel(&f.queue, key, IfRunning::Ask).await.unwrap()
    };
    assert_eq!(cancel().await, CancelOutcome::Requested(leased.id));
    f.publish_keyed(START, replace("2")).await;
    let store = f.store.at(START);
    let released = store.release(&f.queue, leased.id, leased.attempt);
    assert_eq!(released.await.unwrap(), Outcome::Rerun);
    let (leased, body) = f.lease_one(START).await;
    assert_eq!(body, "2");
    f.publish_keyed(START, replace("3")).await;
    assert_eq!(cancel().await, CancelOutcome::Requested(leased.id));
    let released = store.release(&f.queue, leased.id, leased.attempt);
    assert_eq!(released.await.unwrap(), Outcome::Cancelled);
    assert_eq!(f.counts().await, [0; 4]);
}

#[tokio::test]
async fn a_retained_job_keeps_its_key_until_it_expires() {
    let f = fixture().await;
    let publish = async |now_ms, if_exists| {
        let job = f.keyed("a", if_exists, "x", 0);
        f.publish_keyed(now_ms, job).await
    };
    let first = publish(START, IfExists::Keep).await.id;
    let (leased, _) = f.lease_one(START).await;
    let acked = f.ack_leased(START, leased, 5000).await;
    assert_eq!(acked, Outcome::DONE);
    let kept = publish(START + 4999, IfExists::Keep).await;
    assert_eq!((kept.outcome, kept.id), (PublishResult::Exists, first));
    assert_eq!(kept.state, Some(JobState::Done));
    let again = f.ack_leased(START, leased, 5000).await;
    assert_eq!(again, Outcome::Gone);
    let later = publish(START + 5000, IfExists::Keep).await;
    assert_eq!(later.outcome, PublishResult::Created);
}

#[tokio::test]
async fn jobs_of_an_atomic_call_are_stored_as_a_whole_or_not_at_all() {
    let f = fixture().await;
    f.publish_keyed(START, f.keyed("taken", IfExists::Keep, "x", 0))
        .await;
    let jobs = |last| {
        ["a", "b", last]
            .map(|key| f.keyed(key, IfExists::Reject, key, 0))
            .to_vec()
    };
    let atomic = KeyedCall {
        atomic: true,
        ..TERMS
    };
    for last in ["taken", "b"] {
        let refused = f.publish_all(START, jobs(last), atomic).await;
        let PublishReply::Refused { index, refusal } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((index, refusal), (2, PublishRefusal::KeyTaken));
    }
    let full = KeyedCall {
        max_jobs: Some(3),
        ..atomic
    };
    let refused = f.publish_all(START, jobs("c"), full).await;
    assert!(matches!(refused, PublishReply::Refused { index: 2, .. }));
    assert_eq!(f.counts().await, [0, 1, 0, 0]);
    let stored = f.publish_all(START, jobs("c"), atomic).await;
    assert!(matches!(stored, PublishReply::Done { .. }));
    f.expect(START, &["x", "a", "b", "c"]).await;
}

#[tokio::test]
async fn a_repeated_request_stores_nothing_and_names_the_first_job() {
    let f = fixture().await;
    let request = |request| {
        let mut job = f.keyed("unused", IfExists::Keep, "x", 0);
        job.job.native = Some(Box::default());
        job.idempotency = Some(IdempotentRequest {
            key: KeyHash::of_request(&f.queue, "request-1"),
            request,
        });
        job
    };
    let first = f.publish_keyed(START, request(7)).await;
    assert_eq!(first.outcome, PublishResult::Created);
    let again = f.publish_keyed(START + 599_999, request(7)).await;
    assert!(again.replayed);
    assert_eq!(again.id, first.id);
    let other = f.try_publish_keyed(START, request(8)).await;
    assert_eq!(other, Err(PublishRefusal::KeyReused));
    let later = f.publish_keyed(START + 1_200_000, request(8)).await;
    assert_eq!(later.outcome, PublishResult::Created);
}

#[tokio::test]
async fn a_repeated_request_is_known_after_the_clock_was_set_back_over_a_window() {
    let f = fixture().await;
    let mut request = f.keyed("unused", IfExists::Keep, "x", 0);
    request.job.native = Some(Box::default());
    request.idempotency = Some(IdempotentRequest {
        key: KeyHash::of_request(&f.queue, "request-1"),
        request: 7,
    });
    let boundary = START.next_multiple_of(TERMS.idempotency_window_ms);
    let first = f.publish_keyed(boundary, request.clone()).await;
    let again = f.publish_keyed(boundary - 1000, request).await;
    assert!(again.replayed);
    assert_eq!(again.id, first.id);
}

#[tokio::test]
async fn waiting_jobs_are_promoted_and_their_time_is_changed() {
    let f = fixture().await;
    let result = f
        .publish_keyed(START, f.keyed("a", IfExists::Keep, "x", 60_000))
        .await;
    let id = result.id;
    let store = f.store.at(START);
    let change = JobChange::from(DueTime::At(Timestamp::saturating(START + 1000)));
    let _ = store.change(&f.queue, f.key("a"), change).await.unwrap();
    assert_eq!(f.move_due(START + 999).await.ready, 0);
    let promoted = store.promote(&f.queue, id).await.unwrap();
    let expected = |was_delayed| {
        PromoteOutcome::Done(Promoted {
            id,
            due_at_ms: START,
            was_delayed,
        })
    };
    assert_eq!(promoted, expected(true));
    assert_eq!(store.promote(&f.queue, id).await.unwrap(), expected(false));
    f.expect(START, &["x"]).await;
    let held = store.promote(&f.queue, id).await.unwrap();
    assert_eq!(held, PromoteOutcome::NotWaiting(JobState::Leased));
}

/// The payload of a publish that stores nothing was uploaded before its script.
#[tokio::test]
async fn a_large_payload_that_is_not_stored_leaves_nothing() {
    let f = fixture().await;
    let large = |if_exists| {
        let mut keyed = f.keyed("k", if_exists, "", 1000);
        keyed.job.body = sized(20_000).body;
        keyed
    };
    for (if_exists, outcome) in [
        (IfExists::Keep, Ok(PublishResult::Created)),
        (IfExists::Keep, Ok(PublishResult::Exists)),
        (IfExists::Reject, Err(PublishRefusal::KeyTaken)),
        (IfExists::Replace, Ok(PublishResult::Replaced)),
    ] {
        let published = f.try_publish_keyed(START, large(if_exists)).await;
        assert_eq!(published.map(|job| job.outcome), outcome);
        assert_eq!(uploads(&f), Vec::<String>::new(), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_call_may_have_a_key_or_a_request_twice() {
    let f = fixture().await;
    let request = |body| {
        let mut keyed = f.keyed("b", IfExists::Keep, body, 1000);
        keyed.job.native = None;
        keyed.job.tries = 1;
        keyed.idempotency = Some(IdempotentRequest {
            key: KeyHash::of_request(&f.queue, "r"),
            request: 7,
        });
        keyed
    };
    let jobs = vec![
        f.keyed("a", IfExists::Keep, "1", 1000),
        f.keyed("a", IfExists::Replace, "2", 2000),
        f.keyed("a", IfExists::Keep, "3", 0),
        request("4"),
        request("4"),
    ];
    let results = results(f.publish_all(START, jobs, TERMS).await);
    let jobs: Vec<StoredJob> = results.into_iter().map(Result::unwrap).collect();
    let outcomes: Vec<PublishResult> = jobs.iter().map(|job| job.outcome).collect();
    assert_eq!(
        outcomes,
        [
            PublishResult::Created,
            PublishResult::Replaced,
            PublishResult::Exists,
            PublishResult::Created,
            PublishResult::Created,
        ]
    );
    assert!(jobs[1].id == jobs[0].id && jobs[2].id == jobs[0].id);
    let replayed = StoredJob {
        replayed: true,
        ..jobs[3]
    };
    assert_eq!(jobs[4], replayed);
    assert_eq!(jobs[2].run_at_ms, Some(START + 2000));
    assert_eq!(f.counts().await, [2, 0, 0, 0]);
}
