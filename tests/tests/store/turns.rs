//! The queues of a bucket are served round-robin: a due job does not wait for the backlog of another queue.

use tidegate_core::QueueKey;
use tidegate_store::{Alarm, LoadSlotOutcome, MoveDueOutcome, PumpVerb};
use tidegate_testkit::consistency;
use tokio::time::timeout;

use crate::fixture::{LIMIT, START, StoreFixture, TOKEN, delayed, fixture};

const MOVED_MAX: u64 = 64;

async fn publish(f: &StoreFixture, queue: &str, jobs: usize, delay_ms: u64) -> QueueKey {
    let queue = QueueKey::try_from(format!("shop/{queue}").as_str()).unwrap();
    for begin in (0..jobs).step_by(64) {
        let count = 64.min(jobs - begin);
        let batch: Vec<_> = (begin..begin + count)
            .map(|n| delayed(&n.to_string(), delay_ms))
            .collect();
        let store = f.store.at(START);
        store.publish(&queue, &batch, None).await.unwrap();
    }
    queue
}

/// One call, as a pump makes it. Returns how many jobs it made ready, and whether more are due.
async fn call(f: &StoreFixture, now_ms: u64) -> (usize, bool) {
    let (moved, more, _) = call_and_next(f, now_ms).await;
    (moved, more)
}

/// The same, and in how many ms further jobs become due.
async fn call_and_next(f: &StoreFixture, now_ms: u64) -> (usize, bool, Option<u64>) {
    match f
        .store
        .at(now_ms)
        .move_due(0, TOKEN, MOVED_MAX, crate::fixture::LOSSES_MAX)
        .await
        .unwrap()
    {
        MoveDueOutcome::Done {
            latenesses_ms,
            more,
            next_in_us,
            ..
        } => {
            let next_in_ms = next_in_us.map(|us| us / 1000);
            (latenesses_ms.len(), more, next_in_ms)
        }
        MoveDueOutcome::NotLeading => panic!("the test leads every bucket"),
    }
}

async fn ready_in(f: &StoreFixture, queue: &QueueKey) -> u64 {
    f.store.stats(queue).await.unwrap().ready
}

#[tokio::test]
async fn a_due_job_does_not_wait_for_the_backlog_of_another_queue() {
    let f = fixture().await;
    let burst = publish(&f, "burst", 1000, 1000).await;
    let other = publish(&f, "other", 1, 1500).await;
    let mut now_ms = START + 1500;
    assert_eq!(call(&f, now_ms - 500).await, (64, true));
    assert_eq!(ready_in(&f, &other).await, 0);
    assert_eq!(call(&f, now_ms).await, (64, true));
    assert_eq!(ready_in(&f, &other).await, 1);
    while call(&f, now_ms).await.1 {
        now_ms += 1;
    }
    assert_eq!(ready_in(&f, &burst).await, 1000);
    let first = f.store.at(now_ms).peek_ready(&burst).await.unwrap();
    assert_eq!(&first.unwrap().job.body[..], b"0");
    consistency::check(&f.redis.url()).await;
}

/// The pump need not wait for the turn of the backlog.
#[tokio::test]
async fn a_call_that_leaves_a_backlog_returns_when_another_queue_becomes_due() {
    let f = fixture().await;
    publish(&f, "burst", 200, 1000).await;
    publish(&f, "burst", 1, 1200).await;
    assert_eq!(
        call_and_next(&f, START + 1000).await,
        (64, true, None),
        "the backlog has its turn for all of its jobs"
    );
    let other = publish(&f, "other", 2, 1500).await;
    publish(&f, "other", 1, 1700).await;
    assert_eq!(call_and_next(&f, START + 1001).await, (64, true, Some(499)));
    assert_eq!(call_and_next(&f, START + 1500).await, (64, true, Some(200)));
    assert_eq!(ready_in(&f, &other).await, 2);
    assert_eq!(call(&f, START + 1500).await, (11, false));
    consistency::check(&f.redis.url()).await;
}

/// The index begins with the turn of a backlog, which is no time, and with queues that are due already.
#[tokio::test]
async fn an_alarm_is_sent_for_earlier_work_beside_a_backlog() {
    const DUE: usize = 100;
    let f = fixture().await;
    publish(&f, "burst", 100, 1000).await;
    for number in 0..DUE {
        publish(&f, &format!("due-{number}"), 1, 1000).await;
    }
    let now_ms = START + 1000;
    assert_eq!(call(&f, now_ms).await, (64, true));
    let mut alarms = f.store.alarms();
    let mut alarm = async || timeout(LIMIT, alarms.next()).await.unwrap().unwrap();
    assert_eq!(alarm().await, Alarm::Resubscribed);
    for delay_ms in [500, 600, 400] {
        let queue = QueueKey::try_from(format!("shop/in-{delay_ms}").as_str()).unwrap();
        let store = f.store.at(now_ms);
        let job = delayed("x", delay_ms);
        store.publish(&queue, &[job], None).await.unwrap();
    }
    let mut moves_in = Vec::new();
    while moves_in.len() < 2 {
        if let Alarm::Earlier { verb, in_ms, .. } = alarm().await
            && verb == PumpVerb::MoveDue
        {
            moves_in.push(in_ms);
        }
    }
    assert_eq!(moves_in, [500, 400]);
}

#[tokio::test]
async fn backlogs_are_served_round_robin() {
    const QUEUES: usize = 50;
    let f = fixture().await;
    let mut queues = Vec::new();
    for number in 0..QUEUES {
        queues.push(publish(&f, &format!("burst-{number}"), 128, 1000).await);
    }
    let late = publish(&f, "late", 1, 1100).await;
    let mut now_ms = START + 1000;
    // Some queues have had a turn when the late job becomes due, and some not.
    for _ in 0..2 {
        assert_eq!(call(&f, now_ms).await, (64, true));
        now_ms += 1;
    }
    now_ms = START + 1100;
    let mut calls = 0;
    while ready_in(&f, &late).await == 0 {
        assert_eq!(call(&f, now_ms).await, (64, true));
        now_ms += 1;
        calls += 1;
    }
    // A call serves 16 queues; those that had their last turn together go by their numbers.
    assert!(calls <= 5, "{calls} calls for a round of {QUEUES} queues");
    while call(&f, now_ms).await.1 {
        now_ms += 1;
    }
    for queue in &queues {
        assert_eq!(ready_in(&f, queue).await, 128);
    }
    assert_eq!(call(&f, now_ms).await, (0, false));
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn far_timers_are_loaded_into_their_own_queues() {
    let f = fixture().await;
    let hour = 3_600_000;
    let first = publish(&f, "first", 70, hour).await;
    let second = publish(&f, "second", 1, hour + 1).await;
    let loaded = f.store.at(START + hour - 1).load_slot(0, TOKEN, 100).await;
    let expected = LoadSlotOutcome::Done {
        loaded: 71,
        more: false,
        next_in_ms: None,
        next_tick_in_ms: None,
    };
    assert_eq!(loaded.unwrap(), expected);
    consistency::check(&f.redis.url()).await;
    assert_eq!(call(&f, START + hour).await, (64, true));
    assert_eq!(call(&f, START + hour + 1).await, (7, false));
    assert_eq!(
        (ready_in(&f, &first).await, ready_in(&f, &second).await),
        (70, 1)
    );
}

/// Queues become due all the time while others have backlogs.
#[tokio::test]
async fn backlogs_and_newly_due_queues_do_not_starve_each_other() {
    const BACKLOGS: usize = 20;
    let f = fixture().await;
    let mut backlogs = Vec::new();
    for number in 0..BACKLOGS {
        backlogs.push(publish(&f, &format!("backlog-{number}"), 32, 1000).await);
    }
    let mut now_ms = START + 1000;
    assert_eq!(call(&f, now_ms).await, (64, true));
    assert_eq!(call(&f, now_ms).await, (64, true));
    // From now on 30 more queues become due with each call.
    let mut latest = Vec::new();
    for step in 0..6 {
        now_ms += 1;
        for number in 0..30 {
            latest.push(publish(&f, &format!("due-{step}-{number}"), 1, now_ms - START).await);
        }
        let before = sum(&f, &backlogs).await;
        let before_due = sum(&f, &latest).await;
        assert_eq!(call(&f, now_ms).await, (64, true));
        let moved = sum(&f, &backlogs).await - before;
        assert!(moved >= 24, "{moved} of the backlogs");
        let moved = sum(&f, &latest).await - before_due;
        assert!(moved >= 8, "{moved} of the queues that have become due");
    }
    while call(&f, now_ms).await.1 {}
    assert_eq!(sum(&f, &backlogs).await, BACKLOGS as u64 * 32);
    assert_eq!(sum(&f, &latest).await, 180);
    consistency::check(&f.redis.url()).await;
}

async fn sum(f: &StoreFixture, queues: &[QueueKey]) -> u64 {
    let mut sum = 0;
    for queue in queues {
        sum += ready_in(f, queue).await;
    }
    sum
}

/// Turns do not depend on the clock.
#[tokio::test]
async fn the_round_robin_order_is_kept_when_the_clock_is_set_back() {
    let f = fixture().await;
    let mut queues = Vec::new();
    for number in 0..32 {
        queues.push(publish(&f, &format!("burst-{number}"), 64, 1000).await);
    }
    let mut now_ms = START + 60_000;
    let mut calls = async |calls: usize| {
        for _ in 0..calls {
            assert_eq!(call(&f, now_ms).await, (64, true));
            now_ms -= 5_000;
        }
    };
    // Each queue has had a turn. Then 64 turns are two for each of 32 queues, of 4 jobs each.
    calls(3).await;
    let mut before = Vec::new();
    for queue in &queues {
        before.push(ready_in(&f, queue).await);
    }
    calls(4).await;
    for (queue, before) in queues.iter().zip(before) {
        assert_eq!(ready_in(&f, queue).await, before + 8, "{queue}");
    }
    consistency::check(&f.redis.url()).await;
}
