//! Results of jobs, and the messages to those who wait for the end of a job.

use std::time::Duration;

use tidegate_core::v1::publish::PublishResult;
use tidegate_store::{Acked, AfterFailure, Doorbell, FailRequest, JobEnd, Messages, NewResult};
use tokio::time::timeout;

use super::*;
use crate::waiting_process::listening;

const RETAIN_MS: u64 = 60_000;
/// The losses after which a job of the fixture is dead.
const LOSSES_MAX: u32 = 3;
/// How long a job stays that a client waits for.
const AWAITED_MS: u64 = 10_000;

fn result(body: &str) -> Option<NewResult> {
    Some(NewResult {
        attributes: vec![(":t".to_owned(), "text/plain".to_owned())],
        body: body.to_owned().into(),
    })
}

impl StoreFixture {
    fn awaited(&self, key: &str, if_exists: IfExists, body: &str) -> PublishJob {
        let mut keyed = self.keyed(key, if_exists, body, 0);
        keyed.job.native.as_mut().unwrap().is_awaited = true;
        keyed
    }

    async fn ack_with(
        &self,
        now_ms: u64,
        jobs: &[(LeasedJob, Option<NewResult>)],
        retain_ms: u64,
    ) -> Vec<Acked> {
        let jobs = jobs.iter().map(|(job, result)| {
            let result = result.clone();
            AckRequest {
                result,
                ..(*job).into()
            }
        });
        let (jobs, store): (Vec<_>, _) = (jobs.collect(), self.store.at(now_ms));
        let acked = store.ack_all(&self.queue, &jobs, retain_ms);
        acked.await.unwrap()
    }

    async fn end(&self, now_ms: u64, id: JobId) -> JobEnd {
        let store = self.store.at(now_ms);
        store.result(&self.queue, id).await.unwrap()
    }

    /// The result of a job that is done.
    async fn result_text(&self, now_ms: u64, id: JobId) -> String {
        match self.end(now_ms, id).await {
            JobEnd::Done(job) => {
                assert_eq!(job.attributes, [(":t".to_owned(), "text/plain".to_owned())]);
                String::from_utf8(job.body.to_vec()).unwrap()
            }
            end => panic!("{end:?}"),
        }
    }
}

/// The next message that is not about a queue.
async fn next_end(doorbells: &mut Messages<Doorbell>) -> u64 {
    loop {
        let message = timeout(Duration::from_secs(5), doorbells.next());
        if let Some(Doorbell::Ended { bucket: 0, number }) = message.await.unwrap() {
            return number;
        }
    }
}

#[tokio::test]
async fn each_job_of_a_call_has_its_own_result() {
    let f = fixture().await;
    let bodies = [
        String::new(),
        "small".to_owned(),
        "x".repeat(300),
        "y".repeat(90_000),
        (0..20_000).map(|number: u32| number.to_string()).collect(),
    ];
    let mut jobs = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        let keyed = f.keyed(&number.to_string(), IfExists::Keep, "payload", 0);
        f.publish_keyed(START, keyed).await;
        let (leased, _) = f.lease_one(START).await;
        jobs.push((leased, result(body)));
    }
    let done = Acked {
        outcome: Outcome::DONE,
        was: Some(JobState::Leased),
        age_ms: 1,
    };
    assert_eq!(f.ack_with(START + 1, &jobs, RETAIN_MS).await, vec![done; 5]);
    for again in f.ack_with(START + 1, &jobs, RETAIN_MS).await {
        assert_eq!(again.outcome, Outcome::Gone);
    }
    for ((leased, _), body) in jobs.iter().zip(&bodies) {
        assert_eq!(&f.result_text(START + 1, leased.id).await, body);
    }
    // The results go with their jobs.
    for (leased, _) in &jobs {
        let end = f.end(START + 1 + RETAIN_MS + 1, leased.id).await;
        assert_eq!(end, JobEnd::AlreadyGone);
    }
    assert_eq!(f.sweep(START + 2 * RETAIN_MS).await, 5);
    let keys = f.keys_of_jobs();
    assert!(!keys.iter().any(|key| key.contains("body:")), "{keys:?}");
}

#[tokio::test]
async fn an_awaited_job_is_kept_with_its_result_and_each_end_is_notified() {
    let f = fixture().await;
    let mut doorbells = f.store.doorbells();
    listening(&mut doorbells).await;
    let publish = async || {
        let keyed = f.awaited("a", IfExists::Keep, "x");
        let id = f.publish_keyed(START, keyed).await.id;
        (id, f.lease_one(START).await.0)
    };
    let (id, leased) = publish().await;
    let state = JobState::Leased;
    assert_eq!(f.end(START, id).await, JobEnd::NotEnded { id, state });
    let _ = f.ack_with(START, &[(leased, result("r"))], 0).await;
    assert_eq!(next_end(&mut doorbells).await, id.number());
    assert_eq!(f.result_text(START + AWAITED_MS - 1, id).await, "r");
    assert_eq!(f.end(START + AWAITED_MS, id).await, JobEnd::AlreadyGone);
    f.sweep(START + AWAITED_MS + 2000).await;

    let (id, leased) = publish().await;
    let failed = FailRequest {
        job: leased,
        then: AfterFailure::Bury,
        error: "no".to_owned(),
    };
    let retry = tidegate_core::Policy::default().retry;
    let failed = [failed];
    f.store.fail_all(&f.queue, &failed, &retry).await.unwrap();
    assert_eq!(next_end(&mut doorbells).await, id.number());
    assert_eq!(f.end(START, id).await, JobEnd::Dead(id));
    f.store.purge_dead(&f.queue, 10).await.unwrap();

    let (id, _) = publish().await;
    let cancelled = f.store.cancel(&f.queue, id, IfRunning::Revoke);
    assert!(matches!(
        cancelled.await.unwrap(),
        CancelOutcome::Done { .. }
    ));
    assert_eq!(next_end(&mut doorbells).await, id.number());
    assert_eq!(f.end(START, id).await, JobEnd::AlreadyGone);

    // Without a publisher that waits, one who looks is notified; otherwise no message is sent.
    let silent = f.publish_keyed(START, f.keyed("b", IfExists::Keep, "x", 0));
    let (silent, leased) = (silent.await.id, f.lease_one(START).await.0);
    let _ = f.ack_with(START, &[(leased, None)], 0).await;
    let looked = f.publish_keyed(START, f.keyed("c", IfExists::Keep, "x", 0));
    let (looked, leased) = (looked.await.id, f.lease_one(START).await.0);
    assert!(matches!(
        f.end(START, looked).await,
        JobEnd::NotEnded { .. }
    ));
    let _ = f.ack_with(START, &[(leased, None)], 0).await;
    assert_eq!(next_end(&mut doorbells).await, looked.number());
    assert_eq!(f.end(START, silent).await, JobEnd::AlreadyGone);
}

#[tokio::test]
async fn who_waits_for_a_key_waits_for_its_newest_version() {
    let f = fixture().await;
    let mut doorbells = f.store.doorbells();
    let job = f.keyed("a", IfExists::Keep, "1", 0);
    let id = f.publish_keyed(START, job).await.id;
    let joined = f.publish_keyed(START, f.awaited("a", IfExists::Keep, "-"));
    assert_eq!(joined.await.outcome, PublishResult::Exists);
    let (leased, _) = f.lease_one(START).await;
    let replaced = f.keyed("a", IfExists::Replace, "2", 0);
    let replaced = f.publish_keyed(START, replaced).await;
    assert_eq!(replaced.outcome, PublishResult::Rerun);
    let acked = f.ack_with(START, &[(leased, result("first"))], 0).await;
    assert_eq!(acked[0].outcome, Outcome::Rerun);
    let (leased, body) = f.lease_one(START).await;
    assert_eq!(body, "2");
    let _ = f.ack_with(START, &[(leased, result("second"))], 0).await;
    assert_eq!(next_end(&mut doorbells).await, id.number());
    assert_eq!(f.result_text(START, id).await, "second");
}

#[tokio::test]
async fn who_repeats_a_request_may_wait_for_its_end() {
    let f = fixture().await;
    let idempotency = IdempotentRequest {
        key: KeyHash::of_request(&f.queue, "request"),
        request: 1,
    };
    let mut keyed = f.keyed("a", IfExists::Keep, "x", 0);
    keyed.idempotency = Some(idempotency);
    let id = f.publish_keyed(START, keyed.clone()).await.id;
    let (leased, _) = f.lease_one(START).await;
    // Its job may be done before the client looks.
    keyed.job.native.as_mut().unwrap().is_awaited = true;
    let repeated = f.publish_keyed(START, keyed.clone()).await;
    assert!(repeated.replayed);
    let _ = f.ack_with(START, &[(leased, result("r"))], 0).await;
    assert_eq!(f.result_text(START + AWAITED_MS - 1, id).await, "r");
    let repeated = f.publish_keyed(START, keyed).await;
    assert!(repeated.replayed);
    assert_eq!(f.end(START + AWAITED_MS, id).await, JobEnd::AlreadyGone);
}

#[tokio::test]
async fn a_lost_worker_ends_no_wait_until_it_was_the_last() {
    let f = fixture().await;
    let mut doorbells = f.store.doorbells();
    let job = f.awaited("a", IfExists::Keep, "x");
    let id = f.publish_keyed(START, job).await.id;
    let mut now_ms = START;
    for losses in 1..=LOSSES_MAX {
        f.lease_one(now_ms).await;
        now_ms += 61_000;
        f.move_due(now_ms).await;
        match f.end(now_ms, id).await {
            JobEnd::NotEnded { .. } if losses < LOSSES_MAX => {}
            JobEnd::Dead(dead) if losses == LOSSES_MAX => assert_eq!(dead, id),
            end => panic!("{losses}: {end:?}"),
        }
    }
    assert_eq!(next_end(&mut doorbells).await, id.number());
}
