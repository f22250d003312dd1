//! The effect of each verb on a job, and on the counts of its queue.

use bytes::Bytes;
use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::publish::DueTime;
use tidegate_core::v1::values::DurationMs;
use tidegate_core::{IfRunning, InvalidJob, JobId, JobState, NewJob, QueueKey};
use tidegate_store::{CancelOutcome, ChangeOutcome, Claim, POLL_QUEUES_MAX, StoreError};

use crate::fixture::{START, delayed, fixture, job};

#[tokio::test]
async fn jobs_are_delivered_in_order_and_deleted_when_acked() {
    let f = fixture().await;
    f.move_due(START).await;
    let ids = f
        .store
        .publish(&f.queue, &[job("a"), job("b"), job("c")], None)
        .await
        .unwrap();
    f.expect(START, &["a", "b", "c"]).await;
    assert_eq!(f.counts().await, [0, 0, 3, 0]);
    for id in ids {
        let acked = f.store.ack(&f.queue, id, Some(1)).await.unwrap();
        assert_eq!(
            (acked.outcome, acked.was),
            (Outcome::DONE, Some(JobState::Leased))
        );
        assert_eq!(
            f.store.ack(&f.queue, id, None).await.unwrap().outcome,
            Outcome::Gone
        );
    }
    assert_eq!(f.counts().await, [0, 0, 0, 0]);
    assert_eq!(f.keys_of_jobs(), Vec::<String>::new());
}

#[tokio::test]
async fn a_poll_finds_the_queues_with_ready_jobs() {
    let f = fixture().await;
    let poll = async |queues: &[&QueueKey]| {
        let queues = queues.iter().copied();
        f.store.poll(f.store.bucket_of(&f.queue), queues).await
    };
    let unknown = QueueKey::try_from("n/unknown").unwrap();
    let queues = [&unknown, &f.queue];
    assert_eq!(poll(&[]).await.unwrap(), Vec::<bool>::new());
    assert_eq!(poll(&queues).await.unwrap(), [false, false]);
    f.publish(START, delayed("later", 1_000)).await;
    assert_eq!(poll(&queues).await.unwrap(), [false, false]);
    f.publish(START, job("now")).await;
    assert_eq!(poll(&queues).await.unwrap(), [false, true]);
    f.expect(START, &["now"]).await;
    assert_eq!(poll(&queues).await.unwrap(), [false, false]);
    let many = vec![&f.queue; POLL_QUEUES_MAX];
    assert_eq!(poll(&many).await.unwrap(), vec![false; POLL_QUEUES_MAX]);
}

#[tokio::test]
async fn a_job_is_delivered_as_it_was_published() {
    let f = fixture().await;
    f.move_due(START).await;
    let text = "0123456789abcdef".repeat(40);
    let incompressible: Vec<u8> = (0..5000).map(|_| rand::random()).collect();
    for body in [
        Bytes::new(),
        text.clone().into(),
        text.repeat(300).into(),
        incompressible.into(),
    ] {
        let new = NewJob {
            body: body.clone(),
            attributes: vec![("color".into(), "blue".into()), (String::new(), "é".into())],
            mark: true,
            native: None,
            ttl_ms: 9_900,
            tries: 7,
            ..job("")
        };
        let id = f.publish(START, new.clone()).await;
        let claims = [Claim::new(1, 500)];
        let reserved = f
            .store
            .at(START + 20)
            .reserve(&f.queue, &claims)
            .await
            .unwrap();
        let got = &reserved.jobs[0][0];
        assert_eq!(
            (&got.body, &got.attributes, got.id),
            (&body, &new.attributes, id)
        );
        assert_eq!(
            (got.tries_left, got.attempt, got.state),
            (6, 1, JobState::Leased)
        );
        assert_eq!((got.created_at_ms, got.due_at_ms), (START, START + 520));
        assert_eq!(got.expires_at_ms, START + 9_900);
        assert!(got.mark);
        assert_eq!(
            f.store
                .at(START)
                .peek_job(&f.queue, id)
                .await
                .unwrap()
                .unwrap()
                .job,
            // When a leased job was due is known only to its consumer.
            tidegate_core::Job {
                run_at_ms: got.due_at_ms,
                ..got.clone()
            }
        );
        let _ = f.store.at(START).ack(&f.queue, id, None).await.unwrap();
        assert_eq!(
            f.keys_of_jobs(),
            Vec::<String>::new(),
            "{} bytes",
            body.len()
        );
    }
}

#[tokio::test]
async fn a_delayed_job_is_never_early() {
    let f = fixture().await;
    f.publish(START, delayed("later", 1000)).await;
    assert_eq!(f.move_due(START + 999).await.ready, 0);
    f.expect(START + 999, &[]).await;
    assert_eq!(f.counts().await, [1, 0, 0, 0]);
    assert_eq!(f.move_due(START + 1000).await.ready, 1);
    f.expect(START + 1000, &["later"]).await;
}

#[tokio::test]
async fn each_expired_lease_uses_an_attempt_and_the_last_one_buries_the_job() {
    let f = fixture().await;
    f.move_due(START).await;
    f.publish(
        START,
        NewJob {
            tries: 2,
            ..job("a")
        },
    )
    .await;
    assert_eq!(f.reserve(START, 1, 50).await, ["a"]);
    assert_eq!(f.move_due(START + 49).await.ready, 0);
    assert_eq!(f.move_due(START + 50).await.ready, 1);
    assert_eq!(f.reserve(START + 60, 1, 50).await, ["a"]);
    assert_eq!(f.move_due(START + 110).await.buried, 1);
    assert_eq!(f.counts().await, [0, 0, 0, 1]);
    f.expect(START + 200, &[]).await;
    let dead = f.store.peek_dead(&f.queue).await.unwrap().unwrap().job;
    assert_eq!(
        (dead.state, dead.tries_left, dead.attempt),
        (JobState::Dead, 0, 2)
    );
}

#[tokio::test]
async fn an_ack_by_attempt_requires_the_current_lease() {
    let f = fixture().await;
    let id = f
        .publish(
            START,
            NewJob {
                tries: 2,
                ..job("a")
            },
        )
        .await;
    let store = f.store.at(START + 1);
    assert_eq!(
        store.ack(&f.queue, id, Some(1)).await.unwrap().outcome,
        Outcome::Lost,
        "it is not leased"
    );
    assert_eq!(f.reserve(START, 1, 10).await, ["a"]);
    f.move_due(START + 10).await;
    assert_eq!(f.reserve(START + 11, 1, 10).await, ["a"]);
    assert_eq!(
        store.ack(&f.queue, id, Some(1)).await.unwrap().outcome,
        Outcome::Lost,
        "the first lease has expired"
    );
    assert_eq!(
        store.ack(&f.queue, id, Some(2)).await.unwrap().outcome,
        Outcome::DONE
    );
}

/// An action on jobs of one state lists them first. Meanwhile a consumer takes one, and others become ready.
#[tokio::test]
async fn a_job_that_has_left_its_state_is_neither_cancelled_nor_changed() {
    let f = fixture().await;
    let store = f.store.at(START);
    let id = f.publish(START, job("x")).await;
    let (ready, leased) = (Some(JobState::Ready), Some(JobState::Leased));
    let cancel = async |state, if_running| {
        let cancelled = store.cancel_in(&f.queue, id, state, if_running);
        cancelled.await.unwrap()
    };
    let later = JobChange::from(DueTime::After(DurationMs::saturating(1000)));
    let change = async |state| store.change_in(&f.queue, id, state, later).await.unwrap();
    let delayed = Some(JobState::Delayed);
    assert_eq!(
        cancel(delayed, IfRunning::Revoke).await,
        CancelOutcome::AlreadyGone
    );
    assert_eq!(
        change(delayed).await,
        ChangeOutcome::NotWaiting(JobState::Ready)
    );
    f.expect(START, &["x"]).await;
    for if_running in [IfRunning::Refuse, IfRunning::Ask, IfRunning::Revoke] {
        assert_eq!(cancel(ready, if_running).await, CancelOutcome::AlreadyGone);
    }
    let peeked = store.peek_job(&f.queue, id).await.unwrap().unwrap();
    assert_eq!(
        (peeked.job.state, peeked.job.cancel_requested),
        (JobState::Leased, false)
    );
    let revoked = CancelOutcome::Done {
        id,
        was: JobState::Leased,
    };
    assert_eq!(cancel(leased, IfRunning::Revoke).await, revoked);
    let id = f.publish(START, job("y")).await;
    let changed = store.change_in(&f.queue, id, ready, later).await.unwrap();
    assert!(matches!(changed, ChangeOutcome::Done(job) if job.state == JobState::Delayed));
}

#[tokio::test]
async fn cancel_deletes_a_job_in_any_state_but_leased() {
    let f = fixture().await;
    let store = f.store.at(START);
    let waiting = f.publish(START, delayed("delayed", 10)).await;
    let ready = f.publish(START, job("ready")).await;
    assert_eq!(
        store
            .cancel(&f.queue, waiting, IfRunning::Refuse)
            .await
            .unwrap(),
        CancelOutcome::Done {
            id: waiting,
            was: JobState::Delayed
        }
    );
    assert_eq!(
        store
            .cancel(&f.queue, ready, IfRunning::Refuse)
            .await
            .unwrap(),
        CancelOutcome::Done {
            id: ready,
            was: JobState::Ready
        }
    );
    assert_eq!(
        store
            .cancel(&f.queue, ready, IfRunning::Refuse)
            .await
            .unwrap(),
        CancelOutcome::AlreadyGone
    );
    f.expect(START, &[]).await;
    let leased = f.publish(START, job("leased")).await;
    f.expect(START, &["leased"]).await;
    assert_eq!(
        store
            .cancel(&f.queue, leased, IfRunning::Refuse)
            .await
            .unwrap(),
        CancelOutcome::Leased
    );
    f.move_due(START + 1000).await;
    assert_eq!(
        store
            .cancel(&f.queue, leased, IfRunning::Refuse)
            .await
            .unwrap(),
        CancelOutcome::Done {
            id: leased,
            was: JobState::Dead
        }
    );
    assert_eq!(f.counts().await, [0, 0, 0, 0]);
}

#[tokio::test]
async fn a_released_job_is_next_again_and_keeps_its_try() {
    let f = fixture().await;
    let id = f.publish(START, job("a")).await;
    f.publish(START, job("b")).await;
    assert_eq!(f.reserve(START, 1, 100).await, ["a"]);
    let store = f.store.at(START);
    assert_eq!(store.release(&f.queue, id, 2).await.unwrap(), Outcome::Lost);
    assert_eq!(
        store.release(&f.queue, id, 1).await.unwrap(),
        Outcome::Released
    );
    assert_eq!(store.release(&f.queue, id, 1).await.unwrap(), Outcome::Lost);
    let claim = Claim::new(2, 1000);
    let again = store.reserve(&f.queue, &[claim]).await.unwrap();
    let again: Vec<_> = again.jobs[0]
        .iter()
        .map(|job| (&job.body[..], job.tries_left, job.attempt))
        .collect();
    assert_eq!(again, [(&b"a"[..], 0, 2), (&b"b"[..], 0, 1)]);
    // A call that is repeated because its reply was lost does not take the next delivery back.
    assert_eq!(store.release(&f.queue, id, 1).await.unwrap(), Outcome::Lost);
    assert_eq!(
        f.move_due(START + 100).await.ready,
        0,
        "the first lease no longer counts"
    );
    assert_eq!(f.counts().await, [0, 0, 2, 0]);
}

/// Redis does not know the script. Of separate calls some could be sent again after others were executed.
#[tokio::test]
async fn deliveries_that_are_taken_back_together_keep_their_order() {
    let f = fixture().await;
    let mut ids = Vec::new();
    for body in ["a", "b", "c", "d", "e"] {
        ids.push(f.publish(START, job(body)).await);
    }
    f.publish(START, job("behind")).await;
    f.reserve(START, 5, 1000).await;
    let store = f.store.at(START);
    let _ = store.ack(&f.queue, ids[2], Some(1)).await.unwrap();
    let flushed: String = redis::cmd("SCRIPT")
        .arg("FLUSH")
        .query(&mut f.connection())
        .unwrap();
    assert_eq!(flushed, "OK");
    let newest_first =
        [(4, 1), (3, 1), (2, 1), (1, 2), (0, 1)].map(|(job, attempt)| tidegate_store::LeasedJob {
            id: ids[job],
            attempt,
        });
    let released = store.release_all(&f.queue, &newest_first, 0).await.unwrap();
    let (done, gone, lost) = (Outcome::Released, Outcome::Gone, Outcome::Lost);
    assert_eq!(released, [done, done, gone, lost, done]);
    f.expect(START, &["a", "d", "e", "behind"]).await;
    assert_eq!(f.counts().await, [0, 0, 5, 0]);
    tidegate_testkit::consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn peek_shows_the_next_job_and_takes_nothing() {
    let f = fixture().await;
    let store = f.store.at(START);
    assert_eq!(store.peek_ready(&f.queue).await.unwrap(), None);
    f.publish(START, job("a")).await;
    for _ in 0..2 {
        let head = store.peek_ready(&f.queue).await.unwrap().unwrap().job;
        assert_eq!((&head.body[..], head.tries_left), (&b"a"[..], 1));
    }
    assert_eq!(f.counts().await, [0, 1, 0, 0]);
}

#[tokio::test]
async fn an_id_finds_its_job_only_in_its_queue_and_if_every_part_matches() {
    let f = fixture().await;
    let id = f.publish(START, job("a")).await;
    let other = QueueKey::try_from("shop/other").unwrap();
    let store = f.store.at(START);
    store.publish(&other, &[job("x")], None).await.unwrap();
    let forged = |at_ms, nonce| JobId::new(at_ms, id.bucket(), id.number(), nonce);
    let at_ms = id.created_at_ms();
    let other_nonce = forged(at_ms, id.nonce().wrapping_add(1));
    let other_time = forged(at_ms + 1, id.nonce());
    for (queue, id) in [
        (&other, id),
        (&f.queue, other_nonce),
        (&f.queue, other_time),
    ] {
        assert_eq!(store.peek_job(queue, id).await.unwrap(), None);
        assert_eq!(
            store.ack(queue, id, None).await.unwrap().outcome,
            Outcome::Gone
        );
        assert_eq!(
            store.cancel(queue, id, IfRunning::Refuse).await.unwrap(),
            CancelOutcome::AlreadyGone
        );
        assert_eq!(store.release(queue, id, 1).await.unwrap(), Outcome::Gone);
    }
    f.expect(START, &["a"]).await;
}

#[tokio::test]
async fn a_replaced_job_is_deleted_in_the_same_step() {
    let f = fixture().await;
    let old = f.publish(START, delayed("old", 10)).await;
    let store = f.store.at(START);
    let new = store
        .publish(&f.queue, &[job("new")], Some(old))
        .await
        .unwrap()[0];
    assert_ne!(old, new);
    assert_eq!(store.peek_job(&f.queue, old).await.unwrap(), None);
    // If the old job is unknown, or of another queue, the new job is published all the same.
    let other = QueueKey::try_from("shop/other").unwrap();
    store
        .publish(&other, &[job("elsewhere")], Some(new))
        .await
        .unwrap();
    store
        .publish(&f.queue, &[job("again")], Some(old))
        .await
        .unwrap();
    f.expect(START, &["new", "again"]).await;
}

#[tokio::test]
async fn invalid_jobs_are_refused_before_they_are_sent() {
    let f = fixture().await;
    let refused = async |jobs: &[NewJob]| match f.store.publish(&f.queue, jobs, None).await {
        Err(StoreError::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&[]).await, InvalidJob::BatchSize(0));
    assert_eq!(
        refused(&vec![job("a"); 65]).await,
        InvalidJob::BatchSize(65)
    );
    assert_eq!(
        refused(&[
            job("a"),
            NewJob {
                tries: 0,
                ..job("b")
            }
        ])
        .await,
        InvalidJob::NoTries
    );
    assert_eq!(f.counts().await, [0; 4]);
}

#[tokio::test]
async fn dead_jobs_are_respawned_and_purged_oldest_first() {
    let f = fixture().await;
    f.move_due(START).await;
    for number in 0..600 {
        f.publish(START, job(&number.to_string())).await;
    }
    while !f.reserve(START, 100, 1).await.is_empty() {}
    assert_eq!(f.move_due(START + 1).await.buried, 600);
    let store = f.store.at(START + 10);
    assert_eq!(store.respawn(&f.queue, 2, 5000).await.unwrap(), 2);
    let head = store.peek_ready(&f.queue).await.unwrap().unwrap().job;
    assert_eq!((head.tries_left, head.expires_at_ms), (1, START + 5010));
    f.expect(START + 10, &["0", "1"]).await;
    assert_eq!(store.purge_dead(&f.queue, 1).await.unwrap(), 1);
    assert_eq!(
        &store.peek_dead(&f.queue).await.unwrap().unwrap().job.body[..],
        b"3"
    );
    assert_eq!(store.respawn(&f.queue, 300, 0).await.unwrap(), 300);
    assert_eq!(store.purge_ready(&f.queue).await.unwrap(), 300);
    assert_eq!(store.purge_dead(&f.queue, u64::MAX).await.unwrap(), 297);
    assert_eq!(
        store.respawn(&f.queue, u64::MAX, u64::MAX).await.unwrap(),
        0
    );
    assert_eq!(f.counts().await, [0, 0, 2, 0]);
}

#[tokio::test]
async fn claims_are_served_in_order_each_with_its_own_lease() {
    let f = fixture().await;
    let jobs: Vec<NewJob> = ["a", "b", "c", "d"].map(job).to_vec();
    f.store
        .at(START)
        .publish(&f.queue, &jobs, None)
        .await
        .unwrap();
    let claims = [(1, 10), (2, 20), (3, 30)].map(|(count, ttr_ms)| Claim::new(count, ttr_ms));
    let reserved = f.store.at(START).reserve(&f.queue, &claims).await.unwrap();
    let leases: Vec<Vec<u64>> = reserved
        .jobs
        .iter()
        .map(|jobs| jobs.iter().map(|job| job.due_at_ms - START).collect())
        .collect();
    assert_eq!(leases, [vec![10], vec![20, 20], vec![30]]);
}

/// A respawn takes no memory, and its jobs free some when they are acked.
#[tokio::test]
async fn a_full_server_respawns_dead_jobs() {
    let f = fixture().await;
    f.publish(START, job("dies")).await;
    f.expect(START, &["dies"]).await;
    assert_eq!(f.move_due(START + 1000).await.buried, 1);
    let mut limit = redis::cmd("CONFIG");
    limit.arg("SET").arg("maxmemory").arg("1");
    limit.exec(&mut f.connection()).unwrap();
    let store = f.store.at(START + 1000);
    assert_eq!(store.respawn(&f.queue, 1, 0).await.unwrap(), 1);
    f.expect(START + 1000, &["dies"]).await;
}
