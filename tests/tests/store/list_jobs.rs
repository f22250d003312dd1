//! Listing the jobs of a queue, while others come and go.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand::rngs::StdRng;
use tidegate_core::{JobId, JobState, NativeOptions, NewJob, QueueKey, RecordExtension};
use tidegate_store::{
    AckRequest, Claim, DueTimes, IfRunning, JobChange, JobSelection, LIST_HINTS_MAX, LeasedJob,
    ListPosition, ListedJob, NewDue, PUBLISH_JOBS_MAX, ReleaseOutcome, Store,
};
use tidegate_testkit::{print_figure, random};

use crate::fixture::{START, StoreFixture, delayed, fixture, job};
use crate::outside_bodies::sized;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

fn in_states(states: &[JobState]) -> JobSelection {
    JobSelection {
        states: states.to_vec(),
        from_ms: 0,
        before_ms: u64::MAX >> 11,
        with_payload: false,
    }
}

/// All jobs of a list whose calls read so many hints.
async fn walk(
    f: &StoreFixture,
    store: &Store,
    jobs: &JobSelection,
    hints: usize,
) -> Vec<ListedJob> {
    let (mut listed, mut position) = (Vec::new(), None);
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
            run_at_ms: None,
            is_awaited: false,
            extension,
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

async fn finish(f: &StoreFixture, now_ms: u64) -> JobId {
    let (id, attempt) = lease(f, now_ms, 1000).await;
    let request = AckRequest {
        id,
        attempt: Some(attempt),
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
        let change = JobChange {
            due: Some(NewDue::InMs(days * DAY_MS)),
            start_within_ms: None,
        };
        let _ = store.change(&f.queue, moved, change).await.unwrap();
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

/// What happens between two calls of a list to the jobs that need not be in it.
async fn disturb(f: &StoreFixture, now_ms: u64, random: &mut StdRng) {
    for _ in 0..random.random_range(0..4) {
        match random.random_range(0..6) {
            0 => drop(f.reserve(now_ms, random.random_range(1..40), 300).await),
            1 => {
                let jobs: Vec<_> = (0..20).map(|_| job("new")).collect();
                let store = f.store.at(now_ms);
                store.publish(&f.queue, &jobs, None).await.unwrap();
            }
            2 => {
                let (id, attempt) = lease(f, now_ms, 60_000).await;
                let store = f.store.at(now_ms);
                let _ = store.release(&f.queue, id, attempt).await.unwrap();
            }
            3 => drop(
                f.publish(now_ms, delayed("new", random.random_range(1..DAY_MS)))
                    .await,
            ),
            4 => {
                let _ = f.move_due(now_ms).await;
            }
            _ => drop(f.sweep(now_ms).await),
        }
    }
}

/// Ready jobs are taken from the head and given back there, far slots are loaded, the sweep drops stale hints: what stays in
/// its state is in the list.
#[tokio::test]
async fn jobs_that_stay_are_listed_while_others_come_and_go() {
    let mut random = random("jobs_that_stay_are_listed_while_others_come_and_go");
    for round in 0..6 {
        let f = fixture().await;
        let jobs: Vec<_> = (0..2000).map(|_| job("first")).collect();
        publish_all(&f.store.at(START), &f.queue, &jobs).await;
        let mut stay = BTreeSet::new();
        for _ in 0..150 {
            let delay_ms = 10 * HOUR_MS + random.random_range(0..400 * DAY_MS);
            stay.insert(f.publish(START, delayed("stays", delay_ms)).await);
        }
        for _ in 0..100 {
            stay.insert(f.publish(START, job("stays")).await);
        }
        let hints = random.random_range(5..60);
        let (mut now_ms, mut position) = (START, None::<ListPosition>);
        let states = in_states(&[JobState::Delayed, JobState::Ready]);
        let (mut listed, mut calls) = (BTreeSet::new(), 0);
        loop {
            let store = f.store.at(now_ms);
            let page = store.list_jobs(&f.queue, &states, position.as_ref(), hints);
            let page = page.await.unwrap();
            listed.extend(ids(&page.jobs));
            position = page.next;
            calls += 1;
            if position.is_none() {
                break;
            }
            // Few enough that no job that stays is taken or due.
            if calls < 40 {
                now_ms += random.random_range(0..10 * 60_000);
                disturb(&f, now_ms, &mut random).await;
            }
        }
        let missing: Vec<_> = stay.difference(&listed).collect();
        assert!(
            missing.is_empty(),
            "round {round}: {missing:?} of {} in {calls} calls",
            stay.len()
        );
    }
}

#[tokio::test]
async fn a_list_finds_its_place_again_after_many_jobs_were_taken() {
    let f = fixture().await;
    let jobs: Vec<_> = (0..9000).map(|_| job("x")).collect();
    publish_all(&f.store.at(START), &f.queue, &jobs).await;
    let (store, ready) = (f.store.at(START), in_states(&[JobState::Ready]));
    let expected = ids(&walk(&f, &store, &ready, LIST_HINTS_MAX).await);
    assert_eq!(expected.len(), 9000);
    let (mut seen, mut position) = (Vec::new(), None);
    while seen.len() < 8000 {
        let page = store.list_jobs(&f.queue, &ready, position.as_ref(), LIST_HINTS_MAX);
        let page = page.await.unwrap();
        seen.extend(ids(&page.jobs));
        position = page.next;
    }
    // More than one call searches.
    for _ in 0..50 {
        f.reserve(START, 100, 60_000).await;
    }
    while position.is_some() {
        let page = store.list_jobs(&f.queue, &ready, position.as_ref(), LIST_HINTS_MAX);
        let page = page.await.unwrap();
        seen.extend(ids(&page.jobs));
        position = page.next;
    }
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_timer_that_moves_to_a_lower_level_is_listed() {
    const SLOT_MS: u64 = 65_536;
    let f = fixture().await;
    f.publish(START, delayed("x", 70 * SLOT_MS)).await;
    let moved = f.publish(START, delayed("moved", 200 * SLOT_MS)).await;
    let (store, states) = (f.store.at(START), in_states(&[JobState::Delayed]));
    let first = store.list_jobs(&f.queue, &states, None, 1).await.unwrap();
    assert_eq!(first.jobs.len(), 1);
    let now_ms = START + 150 * SLOT_MS;
    f.move_due(now_ms).await;
    let store = f.store.at(now_ms);
    let rest = store.list_jobs(&f.queue, &states, first.next.as_ref(), 10);
    assert_eq!(ids(&rest.await.unwrap().jobs), [moved]);
}

/// The job behind which a list continues was taken, and has come back to the tail: the jobs before it are not left out.
#[tokio::test]
async fn a_job_that_comes_back_is_no_place_in_a_list() {
    let f = fixture().await;
    let mut published = Vec::new();
    for _ in 0..10 {
        published.push(f.publish(START, job("x")).await);
    }
    let (store, ready) = (f.store.at(START), in_states(&[JobState::Ready]));
    let first = store.list_jobs(&f.queue, &ready, None, 3).await.unwrap();
    for _ in 0..3 {
        let (id, attempt) = lease(&f, START, 60_000).await;
        let leased = LeasedJob { id, attempt };
        let released = store.release_all(&f.queue, &[leased], 1000).await;
        assert_eq!(released.unwrap(), [ReleaseOutcome::Done]);
    }
    f.move_due(START + 5000).await;
    let store = f.store.at(START + 5000);
    let rest = store.list_jobs(&f.queue, &ready, first.next.as_ref(), 100);
    let rest = ids(&rest.await.unwrap().jobs);
    assert_eq!(rest, [&published[3..], &published[..3]].concat());
}

/// A job that was brought back and died again has one hint, and a list with the first one finds its place.
#[tokio::test]
async fn a_job_that_dies_again_is_listed_once() {
    let f = fixture().await;
    for _ in 0..10 {
        f.publish(START, job("x")).await;
    }
    f.reserve(START, 10, 100).await;
    f.move_due(START + 200).await;
    let (store, dead) = (f.store.at(START + 200), in_states(&[JobState::Dead]));
    let all = walk(&f, &store, &dead, 10).await;
    // In the middle of the list, so that its hint stays there.
    let five = store.list_jobs(&f.queue, &dead, None, 5).await.unwrap();
    let due = DueTimes::default();
    let respawned = store.respawn_jobs(&f.queue, &five.jobs[3..], due).await;
    assert_eq!(respawned.unwrap(), 2);
    let again = store.respawn_jobs(&f.queue, &five.jobs[3..], due).await;
    assert_eq!(again.unwrap(), 0);
    f.reserve(START + 300, 10, 100).await;
    f.move_due(START + 500).await;
    let expected = [&ids(&all)[..3], &ids(&all)[5..], &ids(&all)[3..5]].concat();
    assert_eq!(ids(&walk(&f, &store, &dead, 3).await), expected);
    let rest = store.list_jobs(&f.queue, &dead, five.next.as_ref(), 10);
    assert_eq!(ids(&rest.await.unwrap().jobs), expected[3..]);
    tidegate_testkit::consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn payloads_are_read_if_requested_and_damaged_ones_are_marked() {
    let f = fixture().await;
    let bodies = [10, 3000, 40_000, 200_000];
    let jobs: Vec<NewJob> = bodies.iter().map(|bytes| sized(*bytes)).collect();
    f.store
        .at(START)
        .publish(&f.queue, &jobs, None)
        .await
        .unwrap();
    let store = f.store.at(START);
    let mut ready = in_states(&[JobState::Ready]);
    let without = walk(&f, &store, &ready, LIST_HINTS_MAX).await;
    assert!(without.iter().all(|listed| listed.job.body.is_empty()));
    ready.with_payload = true;
    let with = walk(&f, &store, &ready, LIST_HINTS_MAX).await;
    let read: Vec<_> = with.iter().map(|listed| &listed.job.body).collect();
    assert_eq!(read, jobs.iter().map(|job| &job.body).collect::<Vec<_>>());
    // 20 MB in calls of at most 64 KiB and one body.
    let many: Vec<NewJob> = (0..100).map(|_| sized(200_000)).collect();
    for jobs in many.chunks(10) {
        publish_all(&f.store.at(START), &f.queue, jobs).await;
    }
    let first = store.list_jobs(&f.queue, &ready, None, LIST_HINTS_MAX);
    assert_eq!(first.await.unwrap().jobs.len(), 4);
    assert_eq!(walk(&f, &store, &ready, LIST_HINTS_MAX).await.len(), 104);
    let body = format!("tg:0:{{8209}}:body:{}", with[2].job.id.number());
    redis::cmd("SET")
        .arg(body)
        .arg("rubbish")
        .exec(&mut f.connection())
        .unwrap();
    let damaged = walk(&f, &store, &ready, 4).await;
    let marks: Vec<_> = damaged
        .iter()
        .take(4)
        .map(|listed| listed.is_damaged)
        .collect();
    assert_eq!(marks, [false, false, true, false]);
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
            with_payload: true,
            ..in_states(&[state])
        };
        let listed = walk(&f, &store, &selection, LIST_HINTS_MAX).await;
        assert_eq!(listed.len(), QUEUES / 4 * of_queue.len());
        let stats: String = redis::from_redis_value(redis("INFO commandstats")).unwrap();
        let line = stats
            .lines()
            .find(|line| line.starts_with("cmdstat_evalsha:"));
        let part = |name: &str| -> Option<f64> {
            line?.split(name).nth(1)?.split(',').next()?.parse().ok()
        };
        let (calls, spent_us) = (part("calls=").unwrap(), part("usec_per_call=").unwrap());
        let slow: u64 = redis::from_redis_value(redis("SLOWLOG LEN")).unwrap();
        print_figure(&format!(
            "list_jobs holds Redis for {spent_us:.0} µs a call that reads {name} jobs, {slow} of {calls} calls for more than 1 ms"
        ));
        assert!(spent_us < 10_000.0, "{spent_us} µs");
    }
}
