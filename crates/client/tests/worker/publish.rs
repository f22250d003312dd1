//! Publishes, batches, queues, and jobs as their producers see them.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::{
    BatchJob, CancelResult, Client, Durability, IfExists, IfRunning, JobChange, JobState,
    PolicyChange, ProblemCode, PublishResult, PurgeState, Respawn, RetryChange, Task,
};

use crate::fixture::{SERVER, clients};

#[derive(Serialize, Deserialize)]
struct OrderToClose {
    order: u64,
}

impl Task for OrderToClose {
    const QUEUE: &'static str = "close-unpaid";
    type Reply = ();
}

const fn order(order: u64) -> OrderToClose {
    OrderToClose { order }
}

#[tokio::test]
async fn each_option_reaches_the_job() {
    let stack = SERVER.acquire().await;
    let (client, native) = clients(&stack, "publish-options").await;
    let retry = RetryChange {
        every: "5s".parse::<tidegate::DurationMs>().unwrap().into(),
        ..RetryChange::default()
    };
    let job = client
        .publish(order(17))
        .delay(Duration::from_secs(1800))
        .key("order/17 ü")
        .if_exists(IfExists::Replace)
        .retain(Duration::from_secs(60))
        .lease(Duration::from_secs(7))
        .max_attempts(4)
        .retry(retry)
        .start_within(Duration::from_secs(3600))
        .durability(Durability::MEMORY)
        .attribute("tenant", "blau grün")
        .await
        .unwrap();
    assert_eq!(
        (job.outcome, job.state),
        (PublishResult::Created, JobState::Delayed)
    );
    assert_eq!(
        (job.queue(), job.key.as_deref()),
        ("close-unpaid", Some("order/17 ü"))
    );
    let details = job.show().await.unwrap();
    assert_eq!(details.attributes.0["tenant"], "blau grün");
    assert_eq!((details.max_attempts, details.run_at), (4, job.run_at));
    let (payload, content_type) = job.payload().await.unwrap();
    assert_eq!(
        (&payload[..], &*content_type),
        (&b"{\"order\":17}"[..], "application/json")
    );

    let again = client.publish(order(18)).key("order/17 ü").await.unwrap();
    assert_eq!((again.outcome, &again.id), (PublishResult::Exists, &job.id));
    let replace = client
        .publish(order(18))
        .key("order/17 ü")
        .if_exists(IfExists::Replace);
    let replaced = replace
        .run_at(SystemTime::UNIX_EPOCH)
        .lease(Duration::from_secs(7))
        .await
        .unwrap();
    assert_eq!(
        (replaced.outcome, &replaced.id, replaced.state),
        (PublishResult::Replaced, &job.id, JobState::Ready)
    );
    let reject = client
        .publish(order(18))
        .key("order/17 ü")
        .if_exists(IfExists::Reject);
    let error = reject.await.unwrap_err();
    assert_eq!(
        (error.code(), error.status()),
        (Some(ProblemCode::KeyTaken), Some(409))
    );

    let leased = native.reserve("close-unpaid", 1).await.remove(0);
    assert_eq!(leased["payload"], json!({"order": 18}));
}

#[tokio::test]
async fn a_running_job_is_cancelled_as_requested() {
    let stack = SERVER.acquire().await;
    let (client, native) = clients(&stack, "publish-cancel").await;
    client.publish(order(17)).key("order/17 ü").await.unwrap();
    native.reserve("close-unpaid", 1).await;
    let by_key = client
        .queue("close-unpaid")
        .unwrap()
        .job_with_key("order/17 ü")
        .unwrap();
    assert_eq!(by_key.cancel().await.unwrap(), CancelResult::Running);
    let ask = by_key.cancel_even_if_running(IfRunning::Ask).await.unwrap();
    assert_eq!(ask, CancelResult::Requested);
    let revoke = by_key
        .cancel_even_if_running(IfRunning::Revoke)
        .await
        .unwrap();
    assert_eq!(revoke, CancelResult::Revoked);
    assert_eq!(by_key.cancel().await.unwrap(), CancelResult::NotFound);
}

#[tokio::test]
async fn a_waiting_job_is_changed_promoted_and_cancelled() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "publish-change").await;
    let raw = client
        .publish_raw("q", "x", "text/plain")
        .delay(Duration::from_secs(60));
    let job = raw.await.unwrap();
    let later = JobChange {
        delay: Some("2h".parse().unwrap()),
        ..JobChange::default()
    };
    let changed = job.change(&later).await.unwrap();
    assert!(changed.run_at > job.run_at.unwrap());
    job.promote().await.unwrap();
    assert_eq!(job.show().await.unwrap().state, JobState::Ready);
    let cancelled = CancelResult::Cancelled {
        was: JobState::Ready,
    };
    assert_eq!(job.cancel().await.unwrap(), cancelled);
    let error = job.show().await.unwrap_err();
    assert_eq!(error.code(), Some(ProblemCode::JobNotFound));
}

#[tokio::test]
async fn a_batch_has_a_result_for_each_job() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "publish-batch").await;
    let jobs = client
        .publish_batch((1..=3).map(order))
        .idempotent()
        .await
        .unwrap();
    assert!(jobs.iter().all(|job| {
        job.as_ref()
            .is_ok_and(|job| job.outcome == PublishResult::Created)
    }));
    let reject = |number| {
        BatchJob::of(&order(number))
            .key("k")
            .if_exists(IfExists::Reject)
    };
    let mut jobs = client.publish_batch([reject(4), reject(5)]).await.unwrap();
    assert_eq!(
        jobs.remove(1).unwrap_err().code(),
        Some(ProblemCode::KeyTaken)
    );
    assert!(jobs.remove(0).is_ok());
    let atomic = client
        .publish_batch([BatchJob::of(&order(6)), reject(7)])
        .atomic()
        .await;
    assert_eq!(atomic.unwrap_err().code(), Some(ProblemCode::KeyTaken));
    let mixed = client.publish_batch([
        BatchJob::of(&order(8)),
        BatchJob::raw("other", "x", "text/plain"),
    ]);
    assert!(
        mixed
            .await
            .unwrap_err()
            .to_string()
            .contains("a batch for each queue")
    );
    assert!(
        client
            .publish_batch(Vec::<BatchJob>::new())
            .await
            .unwrap()
            .is_empty()
    );
    let view = client
        .queue(OrderToClose::QUEUE)
        .unwrap()
        .stats()
        .await
        .unwrap();
    assert_eq!(view.jobs.ready, 4);
}

#[tokio::test]
async fn a_queue_is_shown_changed_respawned_and_purged() {
    let stack = SERVER.acquire().await;
    let (client, native) = clients(&stack, "publish-queue").await;
    let queue = client.queue("q").unwrap();
    let change = PolicyChange {
        lease: "9s".parse::<tidegate::DurationMs>().unwrap().into(),
        ..PolicyChange::default()
    };
    let policy = queue.set_policy(&change).await.unwrap();
    assert_eq!(
        (policy.lease_ms, queue.policy().await.unwrap()),
        (9_000, policy)
    );
    client.publish_raw("q", "x", "text/plain").await.unwrap();
    let lease = native.reserve("q", 1).await[0]["lease"].clone();
    let dead = json!({"leases": [{"lease": lease, "error": "no", "dead": true}]});
    native.settle("fail", &dead).await;
    assert_eq!(queue.respawn(Respawn::default()).await.unwrap(), 1);
    assert!(!queue.delete_if_empty().await.unwrap());
    assert_eq!(queue.purge(PurgeState::Ready).await.unwrap(), 1);
    assert!(queue.delete_if_empty().await.unwrap());
    assert_eq!(queue.stats().await.unwrap().jobs.ready, 0);
}

#[tokio::test]
async fn a_wrong_key_and_an_unreachable_server_are_definite_errors() {
    let stack = SERVER.acquire().await;
    let builder = Client::builder(stack.api(0).url()).namespace("n");
    let wrong = builder
        .key("tg_AAAAAAAAAAAA_00000000000000000000000000")
        .build()
        .unwrap();
    let error = wrong.publish(order(1)).await.unwrap_err();
    assert_eq!(error.code(), Some(ProblemCode::KeyInvalid));
    let limits = tidegate::RepeatLimits {
        repetitions: 2,
        first_delay: Duration::from_millis(1),
        ..tidegate::RepeatLimits::default()
    };
    let builder = Client::builder("http://127.0.0.1:1")
        .namespace("n")
        .key("k");
    let unreachable = builder.repeat_limits(limits).build().unwrap();
    let error = unreachable.publish(order(1)).await.unwrap_err();
    assert!(error.to_string().contains("failed to connect"), "{error}");
    assert_eq!(error.applied(), tidegate::Applied::No);
}
