//! The place in a list where the next call continues, while the list changes.

use std::time::Duration;

use super::*;
use tidegate_core::v1::consume::Outcome;

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
        assert_eq!(released.unwrap(), [Outcome::Released]);
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
    let respawned = store
        .respawn_jobs(&f.queue, &five.jobs[3..], 0, Duration::ZERO)
        .await;
    assert_eq!(respawned.unwrap(), 2);
    let again = store
        .respawn_jobs(&f.queue, &five.jobs[3..], 0, Duration::ZERO)
        .await;
    assert_eq!(again.unwrap(), 0);
    f.reserve(START + 300, 10, 100).await;
    f.move_due(START + 500).await;
    let expected = [&ids(&all)[..3], &ids(&all)[5..], &ids(&all)[3..5]].concat();
    assert_eq!(ids(&walk(&f, &store, &dead, 3).await), expected);
    let rest = store.list_jobs(&f.queue, &dead, five.next.as_ref(), 10);
    assert_eq!(ids(&rest.await.unwrap().jobs), expected[3..]);
    tidegate_testkit::consistency::check(&f.redis.url()).await;
}

/// One of two hints of a job was read, and the other one is behind jobs that were not.
#[tokio::test]
async fn jobs_between_two_hints_of_a_job_are_listed() {
    let f = fixture().await;
    let mut published = Vec::new();
    for _ in 0..150 {
        published.push(f.publish(START, job("x")).await);
    }
    change(&f, START, published[4], HOUR_MS).await;
    let (store, ready) = (f.store.at(START), in_states(&[JobState::Ready]));
    let _ = store.promote(&f.queue, published[4]).await.unwrap();
    let first = store.list_jobs(&f.queue, &ready, None, 5).await.unwrap();
    assert_eq!(ids(&first.jobs), published[..5]);
    lease(&f, START, 60_000).await;
    let rest = walk_from(first.next.as_ref(), &f, &store, &ready, 100).await;
    assert_eq!(ids(&rest)[..145], published[5..]);
}

/// All hints that were read were taken, and the second hint of the last one is now where the first one was.
#[tokio::test]
async fn a_second_hint_at_the_place_of_the_first_one_is_no_place() {
    let f = fixture().await;
    let mut published = Vec::new();
    for _ in 0..7 {
        published.push(f.publish(START, job("x")).await);
    }
    change(&f, START, published[3], HOUR_MS).await;
    let (store, ready) = (f.store.at(START), in_states(&[JobState::Ready]));
    let _ = store.promote(&f.queue, published[3]).await.unwrap();
    for _ in 0..5 {
        published.push(f.publish(START, job("x")).await);
    }
    let first = store.list_jobs(&f.queue, &ready, None, 4).await.unwrap();
    assert_eq!(ids(&first.jobs), published[..4]);
    // Its hints are stale now, and the first one is taken with those before it.
    let cancelled = store
        .cancel(&f.queue, published[3], IfRunning::Refuse)
        .await;
    let _ = cancelled.unwrap();
    for _ in 0..4 {
        lease(&f, START, 60_000).await;
    }
    let rest = walk_from(first.next.as_ref(), &f, &store, &ready, 100).await;
    assert_eq!(ids(&rest), [&published[5..]].concat());
}

/// A job that was dead, was brought back by its key and died again has two hints, with one due time.
#[tokio::test]
async fn dead_jobs_between_two_hints_of_a_job_are_listed() {
    let f = fixture().await;
    let mut dead = Vec::new();
    for (now_ms, key) in [(1, "a"), (2, "b")] {
        publish_keyed(&f, START + now_ms, key).await;
        dead.push(bury(&f, START + now_ms).await);
    }
    for _ in 0..140 {
        f.publish(START + 3, native("x")).await;
        dead.push(bury(&f, START + 3).await);
    }
    publish_keyed(&f, START + 4, "b").await;
    assert_eq!(bury(&f, START + 4).await, dead[1]);
    let (store, states) = (f.store.at(START + 5), in_states(&[JobState::Dead]));
    let first = store.list_jobs(&f.queue, &states, None, 2).await.unwrap();
    assert_eq!(ids(&first.jobs), dead[..2]);
    store.respawn(&f.queue, 1, 0).await.unwrap();
    let rest = walk_from(first.next.as_ref(), &f, &store, &states, 100).await;
    assert_eq!(ids(&rest)[..140], dead[2..]);
}

/// A purge of old dead jobs moves the hints of younger ones before them to the tail.
#[tokio::test]
async fn dead_jobs_are_listed_while_a_purge_turns_their_list() {
    const OLD: u64 = START + 1000;
    const NOW: u64 = START + 2000;
    let f = fixture().await;
    let mut dead = Vec::new();
    for key in ["a", "b"] {
        publish_keyed(&f, OLD, key).await;
        bury(&f, OLD).await;
    }
    for jobs in [3, 50] {
        let now_ms = if jobs == 3 { OLD } else { NOW };
        for _ in 0..jobs {
            f.publish(now_ms, native("x")).await;
            dead.push(bury(&f, now_ms).await);
        }
    }
    for key in ["a", "b"] {
        publish_keyed(&f, NOW, key).await;
        bury(&f, NOW).await;
    }
    let (store, states) = (f.store.at(NOW + 1), in_states(&[JobState::Dead]));
    let first = store.list_jobs(&f.queue, &states, None, 2).await.unwrap();
    assert_eq!(first.jobs.len(), 2);
    let purged = store.purge_dead_after(&f.queue, Duration::from_millis(500));
    assert_eq!(purged.await.unwrap(), 3);
    let rest = walk_from(first.next.as_ref(), &f, &store, &states, 100).await;
    let rest: BTreeSet<JobId> = ids(&rest).into_iter().collect();
    assert!(dead[3..].iter().all(|id| rest.contains(id)));
}

/// Chunks are listed by the index of expiry. One that ends while they are does not hide others, however Redis stores
/// it.
#[tokio::test]
async fn jobs_that_are_done_are_listed_while_chunks_end() {
    const FIRST_NUMBER: u64 = 1_000_001;
    for (entries, hints) in [(128, 100), (128, 7), (0, 100), (0, 7)] {
        let f = fixture().await;
        let mut large = redis::cmd("CONFIG");
        large
            .arg("SET")
            .arg("zset-max-listpack-entries")
            .arg(entries);
        large.exec(&mut f.connection()).unwrap();
        let mut stay = BTreeSet::new();
        // Each chunk has 100 numbers. Every other one ends.
        for number in FIRST_NUMBER..FIRST_NUMBER + 600 {
            let mut done = native("x");
            let stays = number / 100 % 2 == 1;
            let options = done.native.as_mut().unwrap();
            options.extension.retain_ms = Some(if stays { 3_600_000 } else { 5000 });
            let id = f.publish(START, done).await;
            assert_eq!((id.number(), finish(&f, START).await), (number, id));
            if stays {
                stay.insert(id);
            }
        }
        let (mut now_ms, mut position, mut listed) = (START, None, BTreeSet::new());
        let states = in_states(&[JobState::Done]);
        for call in 0.. {
            let store = f.store.at(now_ms);
            let page = store.list_jobs(&f.queue, &states, position.as_ref(), hints);
            let page = page.await.unwrap();
            assert!(page.jobs.len() <= hints);
            listed.extend(ids(&page.jobs));
            position = page.next;
            if position.is_none() {
                break;
            }
            if call == 1 {
                now_ms += 10_000;
                f.sweep(now_ms).await;
            }
        }
        let missing = stay.difference(&listed).count();
        assert_eq!(
            missing,
            0,
            "of {}, {entries} entries, {hints} hints",
            stay.len()
        );
    }
}
