//! Timers that move while they are listed: from slot to slot, to the near timers of their queue, and later.

use super::*;

const SLOT_MS: u64 = 65_536;

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

/// A job that is due later than before has its hint there at once. One that is too early would go back, behind the
/// list.
#[tokio::test]
async fn a_job_that_is_due_later_is_listed_when_its_first_time_has_come() {
    for before_ms in [6000, 3 * SLOT_MS] {
        let f = fixture().await;
        f.publish(START, delayed("first", before_ms - 2000)).await;
        let later = f.publish(START, delayed("later", before_ms)).await;
        change(&f, START, later, 30 * DAY_MS).await;
        let (store, states) = (f.store.at(START), in_states(&[JobState::Delayed]));
        let mut listed = Vec::new();
        let mut position = None;
        // Behind the timer of the first job.
        while !listed.iter().any(|listed: &ListedJob| {
            listed.job.body.is_empty() && listed.job.due_at_ms < START + before_ms
        }) {
            let page = store.list_jobs(&f.queue, &states, position.as_ref(), 1);
            let page = page.await.unwrap();
            listed.extend(page.jobs);
            position = page.next;
        }
        let now_ms = START + before_ms + 1000;
        f.move_due(now_ms).await;
        let rest = walk_from(position.as_ref(), &f, &f.store.at(now_ms), &states, 1).await;
        listed.extend(rest);
        assert!(ids(&listed).contains(&later), "{before_ms} ms");
    }
}

/// The timer of a lease that was extended, or is long, is too early: when it comes up it stays near.
#[tokio::test]
async fn a_lease_that_is_extended_is_listed_when_its_first_end_has_come() {
    let f = fixture().await;
    for _ in 0..2 {
        f.publish(START, job("x")).await;
    }
    lease(&f, START, 4000).await;
    let (id, attempt) = lease(&f, START, 6000).await;
    let (store, states) = (f.store.at(START), in_states(&[JobState::Leased]));
    let leases = [LeasedJob { id, attempt }];
    let touched = store.touch_all(&f.queue, &leases, Some(12 * HOUR_MS), 1000);
    touched.await.unwrap();
    let first = store.list_jobs(&f.queue, &states, None, 1).await.unwrap();
    assert_eq!(first.jobs.len(), 0, "no far timer");
    let first = store.list_jobs(&f.queue, &states, first.next.as_ref(), 1);
    let mut position = first.await.unwrap().next;
    // Each time its timer comes up.
    for now_ms in [START + 7000, START + 7000 + 4 * SLOT_MS] {
        f.move_due(now_ms).await;
        let page = f.store.at(now_ms);
        let page = page.list_jobs(&f.queue, &states, position.as_ref(), 1);
        let page = page.await.unwrap();
        assert_eq!(ids(&page.jobs), [id]);
        if page.next.is_some() {
            position = page.next;
        }
    }
    tidegate_testkit::consistency::check(&f.redis.url()).await;
}

/// Makes the sweep walk through all far slots, a few hundred hints in each of so many calls.
pub(super) async fn turn_far_slots(f: &StoreFixture, calls: usize) {
    let mut connection = f.connection();
    let mut many = redis::cmd("HSET");
    many.arg("tg:0:{8209}:stale").arg("far").arg(1_000_000);
    many.exec(&mut connection).unwrap();
    let mut soon = redis::cmd("ZADD");
    soon.arg("tg:0:{8209}:cleanup").arg(START).arg("f");
    soon.exec(&mut connection).unwrap();
    for _ in 0..calls {
        let store = f.store.at(START);
        let _ = store.sweep(0, crate::fixture::TOKEN, 3).await.unwrap();
    }
}

/// The sweep moves hints from the head of a far slot to its tail, and drops stale ones: the place is found by the
/// number of hints that it took.
#[tokio::test]
async fn jobs_of_a_far_slot_are_listed_while_the_sweep_turns_it() {
    const JOBS: usize = 1200;
    for (pages, turns) in [(1, 1), (3, 1), (6, 1), (6, 2), (9, 3)] {
        let f = fixture().await;
        let jobs: Vec<_> = (0..JOBS).map(|_| delayed("x", DAY_MS)).collect();
        publish_all(&f.store.at(START), &f.queue, &jobs).await;
        let (store, states) = (f.store.at(START), in_states(&[JobState::Delayed]));
        let mut expected: BTreeSet<JobId> = ids(&walk(&f, &store, &states, LIST_HINTS_MAX).await)
            .into_iter()
            .collect();
        assert_eq!(expected.len(), JOBS);
        let (mut listed, mut position) = (BTreeSet::new(), None);
        for _ in 0..pages {
            let page = store.list_jobs(&f.queue, &states, position.as_ref(), LIST_HINTS_MAX);
            let page = page.await.unwrap();
            listed.extend(ids(&page.jobs));
            position = page.next;
        }
        // Half of the hints that were read become stale.
        for id in listed.iter().step_by(2) {
            let _ = store
                .cancel(&f.queue, *id, IfRunning::Refuse)
                .await
                .unwrap();
            expected.remove(id);
        }
        turn_far_slots(&f, turns).await;
        let rest = walk_from(position.as_ref(), &f, &store, &states, LIST_HINTS_MAX).await;
        listed.extend(ids(&rest));
        let missing = expected.difference(&listed).count();
        assert_eq!(missing, 0, "{pages} pages, {turns} turns");
    }
}

/// Each call reads other hints, whatever happens to the jobs that were read before.
#[tokio::test]
async fn far_jobs_that_the_caller_makes_ready_are_read_once() {
    const JOBS: usize = 1500;
    let f = fixture().await;
    let jobs: Vec<_> = (0..JOBS).map(|_| delayed("x", DAY_MS)).collect();
    publish_all(&f.store.at(START), &f.queue, &jobs).await;
    let (store, states) = (f.store.at(START), in_states(&[JobState::Delayed]));
    let (mut promoted, mut calls, mut position) = (0, 0, None);
    loop {
        let page = store.list_jobs(&f.queue, &states, position.as_ref(), LIST_HINTS_MAX);
        let page = page.await.unwrap();
        calls += 1;
        for listed in &page.jobs {
            let _ = store.promote(&f.queue, listed.job.id).await.unwrap();
            promoted += 1;
        }
        position = page.next.map(ListPosition::behind_changed_jobs);
        if position.is_none() {
            break;
        }
    }
    assert_eq!(promoted, JOBS);
    // One for each 100 hints, for the end of the slot, and for the near timers.
    assert!(calls <= JOBS / LIST_HINTS_MAX + 3, "{calls} calls");
}

/// Jobs that are due in many years have a slot each. They are read in order, and each once.
#[tokio::test]
async fn jobs_in_many_far_slots_are_listed_once() {
    let f = fixture().await;
    let mut expected = Vec::new();
    for years in 0..500 {
        let delay_ms = 300_000 + years * 365 * DAY_MS;
        expected.push(f.publish(START, delayed("x", delay_ms)).await);
    }
    let (store, states) = (f.store.at(START), in_states(&[JobState::Delayed]));
    for hints in [7, LIST_HINTS_MAX] {
        let listed = walk(&f, &store, &states, hints).await;
        assert_eq!(ids(&listed), expected, "{hints} hints");
    }
}
