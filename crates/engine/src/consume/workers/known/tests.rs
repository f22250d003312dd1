use bytes::Bytes;
use tidegate_core::{Job, JobState};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);
/// When leases of tests begin, by the clock of Redis.
const SINCE_MS: u64 = 1_000_000;

fn of() -> KnownNamespace {
    KnownNamespace {
        pool: "default".into(),
        namespace: Namespace::try_from("shop").unwrap(),
    }
}

fn queue() -> QueueKey {
    QueueKey::try_from("shop/emails").unwrap()
}

fn lease(number: u64, attempt: u32) -> LeasedJob {
    LeasedJob {
        id: JobId::new(number, 0, 1, 1),
        attempt,
    }
}

/// A registry with a worker that has asked for jobs.
fn registry(name: &Arc<str>) -> Registry {
    let mut registry = Registry::default();
    registry.enter(&of(), name, &[queue()]);
    registry.leave(&of(), name);
    registry
}

/// The worker gets jobs for a minute.
fn hold(registry: &mut Registry, name: &Arc<str>, leases: impl IntoIterator<Item = LeasedJob>) {
    let jobs = leases.into_iter().map(|lease| Job {
        id: lease.id,
        body: Bytes::new(),
        attributes: Vec::new(),
        mark: false,
        extension: None,
        priority: 0,
        failures: None,
        cancel_requested: false,
        has_history: false,
        state: JobState::Leased,
        tries_left: 1,
        attempt: lease.attempt,
        created_at_ms: 1,
        due_at_ms: SINCE_MS + 60_000,
        run_at_ms: 1,
        expires_at_ms: 0,
    });
    let (jobs, queue): (Vec<Job>, QueueKey) = (jobs.collect(), queue());
    let reserved = jobs.iter().map(|job| ReservedJob {
        queue: &queue,
        job,
        leased_at_ms: SINCE_MS,
    });
    registry.holds(&of(), name, reserved);
}

/// The stored workers, by name.
fn stored(registry: &mut Registry) -> Vec<(String, StoredWorker)> {
    let mut stored = Vec::new();
    for (of, mut names) in registry.changed() {
        loop {
            let part = registry.take_part(&of, &mut names);
            if part.is_empty() {
                break;
            }
            assert!(part.len() <= PART_WORKERS_MAX, "{}", part.len());
            let of_part = part.into_iter();
            stored.extend(of_part.map(|(name, text)| {
                assert!(text.len() <= LEASES_BYTES_MAX + 4096, "{}", text.len());
                (name.to_string(), serde_json::from_str(&text).unwrap())
            }));
        }
    }
    stored
}

/// The leases of the only worker that is stored.
fn stored_leases(registry: &mut Registry) -> Vec<String> {
    let stored = stored(registry).into_iter().flat_map(|it| it.1.leases);
    stored.flat_map(|it| it.1).map(|it| it.0).collect()
}

fn unchecked(registry: &Registry) -> Vec<LeasedJob> {
    registry.unchecked().into_values().flatten().collect()
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_stored_when_it_changes_and_again_before_its_entry_ends() {
    let (mut registry, of, name) = (Registry::default(), of(), Arc::from("mailer"));
    registry.enter(&of, &name, &[queue()]);
    registry.enter(&of, &"other".into(), &[queue()]);
    let first = stored(&mut registry);
    assert_eq!(first.len(), 2);
    let worker = &first.iter().find(|it| it.0 == "mailer").unwrap().1;
    assert_eq!((&*worker.queues[0], worker.waits), ("emails", true));
    assert!(stored(&mut registry).is_empty());
    tokio::time::advance(KEPT / 3).await;
    assert_eq!(stored(&mut registry).len(), 2, "their requests wait");
    registry.leave(&of, &name);
    let changed = stored(&mut registry);
    assert_eq!(changed.len(), 1, "the other one has not changed");
    assert!(!changed[0].1.waits);
    registry.leave(&of, &"other".into());
    registry.store_again(&of, [name].into_iter());
    assert_eq!(stored(&mut registry).len(), 2);
    tokio::time::advance(REMEMBERED).await;
    assert!(stored(&mut registry).is_empty());
    assert!(registry.namespaces.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_a_limited_number_of_workers_and_they_are_stored_in_parts() {
    let (mut registry, of) = (Registry::default(), of());
    for number in 0..WORKERS_MAX + 10 {
        let name = Arc::from(number.to_string());
        registry.enter(&of, &name, &[]);
        registry.leave(&of, &name);
    }
    assert_eq!(stored(&mut registry).len(), WORKERS_MAX);
}

#[tokio::test(start_paused = true)]
async fn leases_that_would_end_first_make_room() {
    let name = Arc::from("mailer");
    let mut registry = registry(&name);
    let all = |from: u64, count: u64| (from..from + count).map(|number| lease(number, 1));
    hold(&mut registry, &name, all(0, 1));
    registry.extended(lease(0, 1), SINCE_MS + 3_600_000);
    tokio::time::advance(Duration::from_secs(1)).await;
    // Their acks go to another process.
    hold(&mut registry, &name, all(1, 150));
    tokio::time::advance(Duration::from_secs(1)).await;
    hold(&mut registry, &name, all(151, 150));
    assert_eq!(registry.holders.len(), LEASES_KNOWN_MAX);
    let known: Vec<JobId> = registry.holders.keys().copied().collect();
    assert!(known.contains(&lease(0, 1).id), "it was extended");
    assert!(all(151, 150).all(|it| known.contains(&it.id)), "the newest");

    // More than are stored: all are compared, and leases that have ended make room.
    let compared = unchecked(&registry);
    assert_eq!(compared.len(), LEASES_KNOWN_MAX);
    for job in compared {
        let is_held = job == lease(0, 1) || job == lease(300, 1);
        registry.checked(job, is_held.then_some(SINCE_MS + 3_600_000));
    }
    let stored = stored_leases(&mut registry);
    let held = [lease(0, 1), lease(300, 1)].map(|it| it.id.to_string());
    assert_eq!(stored, held);
    assert!(unchecked(&registry).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_compared_with_its_record_when_its_end_has_passed() {
    let name = Arc::from("mailer");
    let mut registry = registry(&name);
    hold(
        &mut registry,
        &name,
        [lease(1, 1), lease(2, 1), lease(3, 1)],
    );
    assert_eq!(unchecked(&registry), []);
    registry.extended(lease(1, 1), SINCE_MS + 120_000);
    registry.extended(lease(2, 7), SINCE_MS + 120_000);
    tokio::time::advance(MINUTE).await;
    let mut compared = unchecked(&registry);
    compared.sort_by_key(|it| it.id);
    assert_eq!(compared, [lease(2, 1), lease(3, 1)]);
    // One lease was extended at another process, the other lease has ended there.
    registry.checked(lease(2, 1), Some(SINCE_MS + 90_000));
    registry.checked(lease(3, 1), None);
    assert_eq!(unchecked(&registry), []);
    assert_eq!(stored_leases(&mut registry).len(), 2);
    tokio::time::advance(MINUTE).await;
    assert_eq!(unchecked(&registry).len(), 2);
    // No pump ends the lease: it is not compared in each round.
    registry.checked(lease(2, 1), Some(SINCE_MS + 90_000));
    registry.checked(lease(1, 1), None);
    assert_eq!(unchecked(&registry), []);
    tokio::time::advance(CHECK_INTERVAL).await;
    assert_eq!(unchecked(&registry), [lease(2, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_round_compares_a_limited_number_and_the_others_next() {
    let mut registry = Registry::default();
    for worker in 0..20 {
        let name = Arc::from(worker.to_string());
        registry.enter(&of(), &name, &[queue()]);
        let numbers = worker * 100..(worker + 1) * 100;
        hold(&mut registry, &name, numbers.map(|number| lease(number, 1)));
    }
    tokio::time::advance(MINUTE).await;
    let first = unchecked(&registry);
    assert_eq!(first.len(), CHECKED_MAX);
    for job in &first {
        registry.checked(*job, Some(SINCE_MS + 60_000));
    }
    tokio::time::advance(CHECK_INTERVAL).await;
    let next = unchecked(&registry);
    assert_eq!(next.len(), CHECKED_MAX);
    assert!(next.iter().all(|job| !first.contains(job)));
}

#[tokio::test(start_paused = true)]
async fn a_late_ack_of_an_earlier_delivery_does_not_end_the_next_one() {
    let (one, other) = (Arc::from("one"), Arc::from("other"));
    let mut registry = registry(&one);
    registry.enter(&of(), &other, &[queue()]);
    hold(&mut registry, &one, [lease(1, 1)]);
    hold(&mut registry, &other, [lease(1, 2)]);
    registry.ended(lease(1, 1));
    registry.checked(lease(1, 1), None);
    let held = stored(&mut registry);
    let held = held.iter().map(|it| (&*it.0, it.1.leases.len()));
    let mut held: Vec<(&str, usize)> = held.collect();
    held.sort_unstable();
    assert_eq!(held, [("one", 0), ("other", 1)]);
    registry.ended(lease(1, 2));
    assert!(!registry.has_leases());
}
