//! Listing the jobs of a queue, while others come and go.

mod beginnings;
mod places;
mod random_walk;
mod timers;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::publish::DueTime;
use tidegate_core::v1::values::DurationMs;
use tidegate_core::{
    IfExists, IfRunning, JobId, JobState, KeyHash, NativeOptions, NewJob, QueueKey,
    RecordExtension, RetryDelays, RetryPolicy, RetrySteps,
};
use tidegate_store::{
    AckRequest, AfterFailure, Claim, FailRequest, JobSelection, KeyPlace, KeyedCall,
    LIST_HINTS_MAX, LeasedJob, ListPosition, ListedJob, PUBLISH_JOBS_MAX, PublishJob, PublishReply,
    Store,
};
use tidegate_testkit::print_figure;

use crate::fixture::{START, StoreFixture, delayed, fixture, job};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

fn in_states(states: &[JobState]) -> JobSelection {
    JobSelection {
        states: states.to_vec(),
        from_ms: 0,
        before_ms: u64::MAX >> 11,
        with_attributes: false,
        with_failures: false,
    }
}

/// All jobs of a list whose calls read so many hints.
async fn walk(
    f: &StoreFixture,
    store: &Store,
    jobs: &JobSelection,
    hints: usize,
) -> Vec<ListedJob> {
    walk_from(None, f, store, jobs, hints).await
}

/// The same from a position on.
async fn walk_from(
    position: Option<&ListPosition>,
    f: &StoreFixture,
    store: &Store,
    jobs: &JobSelection,
    hints: usize,
) -> Vec<ListedJob> {
    let (mut listed, mut position) = (Vec::new(), position.cloned());
    loop {
        let page = store.list_jobs(&f.queue, jobs, position.as_ref(), hints);
        let page = page.await.unwrap();
        assert!(page.jobs.len() <= hints);
        listed.extend(page.jobs);
        position = match page.next {
            None => return listed,
            // As a client would send it.
            next => next.map(|next| next.to_string().parse().unwrap()),
        };
    }
}

fn ids(listed: &[ListedJob]) -> Vec<JobId> {
    listed.iter().map(|listed| listed.job.id).collect()
}

/// A job that counts failures, and is kept for an hour when it is done.
fn native(body: &str) -> NewJob {
    let extension = RecordExtension {
        retain_ms: Some(3_600_000),
        ..RecordExtension::default()
    };
    NewJob {
        tries: 0,
        native: Some(Box::new(NativeOptions {
            extension,
            ..NativeOptions::default()
        })),
        ..job(body)
    }
}

async fn publish_all(store: &Store, queue: &QueueKey, jobs: &[NewJob]) {
    for jobs in jobs.chunks(PUBLISH_JOBS_MAX) {
        store.publish(queue, jobs, None).await.unwrap();
    }
}

/// Leases the oldest ready job.
async fn lease(f: &StoreFixture, now_ms: u64, lease_ms: u64) -> (JobId, u32) {
    let claims = [Claim::new(1, lease_ms)];
    let reserved = f.store.at(now_ms).reserve(&f.queue, &claims).await.unwrap();
    let job = reserved.jobs.into_iter().flatten().next().unwrap();
    (job.id, job.attempt)
}

/// Dies for good.
async fn bury(f: &StoreFixture, now_ms: u64) -> JobId {
    let (id, attempt) = lease(f, now_ms, 1000).await;
    let failed = [FailRequest {
        job: LeasedJob { id, attempt },
        then: AfterFailure::Bury,
        error: "x".to_owned(),
    }];
    let policy = RetryPolicy {
        max_attempts: 3,
        delays: RetryDelays {
            steps: RetrySteps::Listed(vec![1000]),
            jitter_permille: 0,
        },
    };
    let store = f.store.at(now_ms);
    let outcomes = store.fail_all(&f.queue, &failed, &policy).await.unwrap();
    assert_eq!(outcomes, [Outcome::Dead]);
    id
}

/// Publishes a ready job with a key, or brings it back if it is dead.
async fn publish_keyed(f: &StoreFixture, now_ms: u64, key: &str) {
    let mut job = native(key);
    let options = job.native.as_mut().unwrap();
    options.extension.key_hash = Some(KeyHash::of_job(&f.queue, key).0);
    let job = PublishJob {
        job,
        if_exists: IfExists::Keep,
        idempotency: None,
    };
    let call = KeyedCall {
        max_jobs: None,
        is_closed: false,
        place: KeyPlace::FIRST_LANE,
        asks: false,
        idempotency_window_ms: 600_000,
        atomic: false,
    };
    let store = f.store.at(now_ms);
    let published = store.publish_keyed(&f.queue, vec![job], call).await;
    assert!(
        matches!(published, Ok(PublishReply::Done { .. })),
        "{published:?}"
    );
}

/// Sets when a job that waits is due.
async fn change(f: &StoreFixture, now_ms: u64, id: JobId, delay_ms: u64) {
    let change = JobChange::from(DueTime::After(DurationMs::saturating(delay_ms)));
    let _ = f
        .store
        .at(now_ms)
        .change(&f.queue, id, change)
        .await
        .unwrap();
}

async fn finish(f: &StoreFixture, now_ms: u64) -> JobId {
    let (id, attempt) = lease(f, now_ms, 1000).await;
    let request = AckRequest {
        id,
        attempt: Some(attempt),
        result: None,
    };
    let store = f.store.at(now_ms);
    store.ack_all(&f.queue, &[request], 0).await.unwrap();
    id
}

/// Jobs in all states, in the order in which they are expected; besides them jobs of another queue in each state.
async fn one_of_each(f: &StoreFixture) -> BTreeMap<&'static str, JobId> {
    let other = QueueKey::try_from("shop/others").unwrap();
    let mut jobs = BTreeMap::new();
    for queue in [&other, &f.queue] {
        let store = f.store.at(START);
        let publish = async |job| store.publish(queue, &[job], None).await.unwrap()[0];
        jobs.insert("dead", publish(job("dead")).await);
        store.reserve(queue, &[Claim::new(1, 100)]).await.unwrap();
        f.move_due(START + 200).await;
        jobs.insert("leased", publish(job("leased")).await);
        store
            .reserve(queue, &[Claim::new(1, 60_000)])
            .await
            .unwrap();
        jobs.insert("leased for long", publish(job("leased for long")).await);
        let long = Claim::new(1, 12 * HOUR_MS);
        store.reserve(queue, &[long]).await.unwrap();
        jobs.insert("ready", publish(job("ready")).await);
        for (name, delay_ms) in [
            ("in a minute", 60_000),
            ("in an hour", HOUR_MS),
            ("in a week", 7 * DAY_MS),
            ("in a year", 365 * DAY_MS),
        ] {
            jobs.insert(name, publish(delayed(name, delay_ms)).await);
        }
    }
    jobs
}

#[tokio::test]
async fn jobs_are_listed_by_state_and_due_time() {
    let f = fixture().await;
    f.publish(START, native("done")).await;
    let done = finish(&f, START).await;
    let mut jobs = one_of_each(&f).await;
    jobs.insert("done", done);
    let store = f.store.at(START + 1000);
    for hints in [1, 2, 3, LIST_HINTS_MAX] {
        let all = walk(&f, &store, &in_states(&JobState::ALL), hints).await;
        let found: BTreeSet<JobId> = ids(&all).into_iter().collect();
        assert_eq!(found.len(), all.len(), "each job once");
        assert_eq!(found, jobs.values().copied().collect(), "{hints} hints");
        for (state, names) in [
            (
                JobState::Delayed,
                &["in a minute", "in a week", "in a year", "in an hour"][..],
            ),
            (JobState::Leased, &["leased", "leased for long"]),
            (JobState::Ready, &["ready"]),
            (JobState::Dead, &["dead"]),
            (JobState::Done, &["done"]),
        ] {
            let mut of_state = ids(&walk(&f, &store, &in_states(&[state]), hints).await);
            of_state.sort();
            let mut expected: Vec<JobId> = names.iter().map(|name| jobs[name]).collect();
            expected.sort();
            assert_eq!(of_state, expected, "{state:?}, {hints} hints");
        }
        let until_tomorrow = JobSelection {
            from_ms: START + 60_000,
            before_ms: START + HOUR_MS + 1,
            ..in_states(&[JobState::Delayed])
        };
        let mut soon = ids(&walk(&f, &store, &until_tomorrow, hints).await);
        soon.sort();
        let mut expected = vec![jobs["in a minute"], jobs["in an hour"]];
        expected.sort();
        assert_eq!(soon, expected);
    }
}

#[tokio::test]
async fn hints_that_do_not_count_show_no_jobs() {
    let f = fixture().await;
    let cancelled = [
        f.publish(START, job("ready")).await,
        f.publish(START, delayed("near", 30_000)).await,
        f.publish(START, delayed("far", DAY_MS)).await,
    ];
    let store = f.store.at(START);
    for id in cancelled {
        let _ = store.cancel(&f.queue, id, IfRunning::Refuse).await.unwrap();
    }
    let mut short = job("expired");
    short.ttl_ms = 100;
    f.publish(START, short).await;
    // It has a hint in a far slot for each of its due times.
    let moved = f.publish(START, delayed("moved", 30 * DAY_MS)).await;
    for days in [20, 2] {
        change(&f, START, moved, days * DAY_MS).await;
    }
    let store = f.store.at(START + 200);
    let all = walk(&f, &store, &in_states(&JobState::ALL), 5).await;
    assert_eq!(ids(&all), [moved]);
    assert_eq!(all[0].job.due_at_ms, START + 2 * DAY_MS);
    let (unused, all) = (
        QueueKey::try_from("shop/unused").unwrap(),
        in_states(&JobState::ALL),
    );
    let none = store.list_jobs(&unused, &all, None, 5).await.unwrap();
    assert!(none.jobs.is_empty());
}

/// How many scripts Redis has executed since `CONFIG RESETSTAT`, and how long each took, in µs.
fn script_calls(f: &StoreFixture) -> (f64, f64) {
    let mut info = redis::cmd("INFO");
    let stats: String = info.arg("commandstats").query(&mut f.connection()).unwrap();
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"));
    let part =
        |name: &str| -> Option<f64> { line?.split(name).nth(1)?.split(',').next()?.parse().ok() };
    (part("calls=").unwrap(), part("usec_per_call=").unwrap())
}

/// With `TIDEGATE_LISTED_JOBS` of them; the figures in docs are those of a million.
#[tokio::test]
async fn a_call_holds_redis_for_less_than_a_millisecond() {
    const QUEUES: usize = 80;
    let f = fixture().await;
    let jobs = std::env::var("TIDEGATE_LISTED_JOBS").map_or(8_000, |jobs| jobs.parse().unwrap());
    let of_queue: Vec<_> = (0..jobs / QUEUES)
        .map(|_| job(&"0123456789".repeat(10)))
        .collect();
    for number in 0..QUEUES / 4 {
        let other = QueueKey::try_from(&*format!("shop/q{number}")).unwrap();
        for queue in [&f.queue, &other] {
            let (store, mut jobs) = (f.store.at(START), of_queue.clone());
            publish_all(&store, queue, &jobs).await;
            let delay_ms = 100_000 + number as u64 * DAY_MS;
            jobs.iter_mut().for_each(|job| job.delay_ms = delay_ms);
            publish_all(&store, queue, &jobs).await;
        }
    }
    let (store, mut connection) = (f.store.at(START), f.connection());
    let mut redis = |command: &str| -> redis::Value {
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        command.query(&mut connection).unwrap()
    };
    redis("CONFIG SET slowlog-log-slower-than 1000");
    for (name, state) in [("ready", JobState::Ready), ("delayed", JobState::Delayed)] {
        redis("CONFIG RESETSTAT");
        redis("SLOWLOG RESET");
        let selection = JobSelection {
            with_attributes: true,
            ..in_states(&[state])
        };
        let listed = walk(&f, &store, &selection, LIST_HINTS_MAX).await;
        assert_eq!(listed.len(), QUEUES / 4 * of_queue.len());
        let (calls, spent_us) = script_calls(&f);
        let slow: u64 = redis::from_redis_value(redis("SLOWLOG LEN")).unwrap();
        print_figure(&format!(
            "list_jobs holds Redis for {spent_us:.0} µs a call that reads {name} jobs, {slow} of {calls} calls for more than 1 ms"
        ));
        assert!(spent_us < 10_000.0, "{spent_us} µs");
    }
}
