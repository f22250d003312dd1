//! A server at `maxmemory`: what may still be written there does not make its data larger.

use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{IfExists, QueueKey, RetryDelays, RetryPolicy, RetrySteps};
use tidegate_store::{
    AfterFailure, Claim, FailRequest, LeasedJob, NamespacedName, POLL_QUEUES_MAX, Store,
    TableSetOutcome,
};
use tidegate_testkit::{RedisControl, print_figure, webhook_relay};

use crate::fixture::{START, StoreFixture, fixture, job};
use crate::waiting_process::WaitingProcess;

const JOBS: u16 = 200;
const RUNS: u32 = 12;
const ERROR_BYTES: usize = 1024;
/// For a near timer, buffers of connections and what the allocator keeps: a tenth of one history.
const GROWTH_PER_JOB: u64 = 1024;

/// Takes all ready jobs, and ends their attempts with an error; they are ready again.
async fn fail_all(f: &StoreFixture) -> Vec<LeasedJob> {
    let store = f.store.at(START);
    let reserved = store.reserve(&f.queue, &[Claim::new(JOBS, 60_000)]).await;
    let jobs = reserved.unwrap().jobs.remove(0).into_iter();
    let leased: Vec<LeasedJob> = jobs
        .map(|job| LeasedJob {
            id: job.id,
            attempt: job.attempt,
        })
        .collect();
    let failed: Vec<FailRequest> = leased
        .iter()
        .map(|job| FailRequest {
            job: *job,
            then: AfterFailure::RetryInMs(0),
            error: format!("{}{}", job.attempt % 10, "x".repeat(ERROR_BYTES - 1)),
        })
        .collect();
    let policy = RetryPolicy {
        max_attempts: 100,
        delays: RetryDelays {
            steps: RetrySteps::Listed(vec![1000]),
            jitter_permille: 0,
        },
    };
    let outcomes = store.fail_all(&f.queue, &failed, &policy).await.unwrap();
    let run_at = Timestamp::saturating(START);
    let retried = Outcome::Retry { run_at };
    assert!(outcomes.iter().all(|outcome| *outcome == retried));
    leased
}

#[tokio::test]
async fn histories_of_failures_do_not_grow_in_a_full_redis() {
    let f = fixture().await;
    let mut control = RedisControl::connect(&f.redis.url()).await;
    for n in 0..JOBS {
        let key = format!("key-{n}");
        let job = f.keyed(&key, IfExists::Replace, "x", 0);
        f.publish_keyed(START, job).await;
    }
    // One job has a history already.
    let failing = fail_all(&f).await;
    control.limit_memory(Some(0)).await;
    let before = control.used_memory().await;
    let mut last = Vec::new();
    for _ in 0..RUNS {
        last = fail_all(&f).await;
        assert_eq!(last.len(), usize::from(JOBS));
    }
    let grown = control.used_memory().await.saturating_sub(before);
    print_figure(&format!(
        "{RUNS} failures of each of {JOBS} jobs in a full redis: {grown} bytes more"
    ));
    assert!(grown < u64::from(JOBS) * GROWTH_PER_JOB, "{grown}");

    // The last error took the place of the older one.
    let history = f.store.history(failing[0].id).await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].attempt, RUNS + 1);
    control.limit_memory(None).await;
    fail_all(&f).await;
    let history = f.store.history(last[0].id).await.unwrap();
    assert_eq!(history.len(), 2, "with memory the history grows");
}

#[tokio::test]
async fn a_job_without_a_history_gets_none_in_a_full_redis() {
    let f = fixture().await;
    let mut control = RedisControl::connect(&f.redis.url()).await;
    let job = f.keyed("a", IfExists::Replace, "x", 0);
    f.publish_keyed(START, job).await;
    control.limit_memory(Some(0)).await;
    let failed = fail_all(&f).await;
    let history = f.store.history(failed[0].id).await.unwrap();
    assert!(history.is_empty());
    let peeked = f.store.at(START).peek_job(&f.queue, failed[0].id).await;
    let job = peeked.unwrap().unwrap().job;
    assert_eq!(job.failures.unwrap().failures, 1, "it counts");
}

#[tokio::test]
async fn large_settings_do_not_grow_in_a_full_redis() {
    let f = fixture().await;
    let mut control = RedisControl::connect(&f.redis.url()).await;
    let relays = f.store.relays();
    let relay = |name: &str| NamespacedName::try_from(&*format!("shop/{name}")).unwrap();
    let of_length = |bytes: usize| {
        let shortest = serde_json::to_string(&webhook_relay("")).unwrap();
        webhook_relay(&"x".repeat(bytes - shortest.len()))
    };
    let set = async |name: &str, bytes: usize| {
        let set = relays
            .set(&relay(name), Some(&of_length(bytes)), None)
            .await;
        set.map(|outcome| assert!(matches!(outcome, TableSetOutcome::Done(_))))
    };
    set("known", 1000).await.unwrap();
    control.limit_memory(Some(0)).await;
    for (name, bytes) in [("new", 1000), ("known", 2000)] {
        let refused = set(name, bytes).await.unwrap_err();
        assert!(refused.is_out_of_memory(), "{name}: {refused}");
    }
    let stored = relays.get(&relay("known")).await.unwrap().unwrap();
    assert_eq!(stored.value, Ok(of_length(1000)));
    assert_eq!(relays.get(&relay("new")).await.unwrap(), None);
    // As when it is paused.
    set("known", 1010).await.unwrap();
    let _ = relays.set(&relay("known"), None, None).await.unwrap();
    assert_eq!(relays.get(&relay("known")).await.unwrap(), None);
}

/// Clients may wait for any names, also in a full Redis.
#[tokio::test]
async fn registrations_of_a_bucket_are_bounded() {
    const REGISTERED_MAX: usize = 4096;
    let f = fixture().await;
    let mut known = WaitingProcess::registered(&f, START, &f.queue).await;
    let store: Store = known.store.at(START);
    let names: Vec<QueueKey> = (0..REGISTERED_MAX + 500)
        .map(|n| QueueKey::try_from(format!("shop/queue-{n}").as_str()).unwrap())
        .collect();
    for names in names.chunks(POLL_QUEUES_MAX) {
        let _ = store.poll(0, names.iter()).await.unwrap();
    }
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("*waiting:*")
        .query(&mut f.connection())
        .unwrap();
    let registered: usize = redis::cmd("HLEN")
        .arg(&keys[0])
        .query(&mut f.connection())
        .unwrap();
    assert_eq!((keys.len(), registered), (1, REGISTERED_MAX));
    f.publish(START, job("a")).await;
    known.rang_for(&f.queue).await;
}
