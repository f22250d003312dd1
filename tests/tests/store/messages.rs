//! Doorbells and alarms: when they are sent, and with which content.

use std::time::Duration;

use tidegate_core::{NewJob, QueueKey};
use tidegate_store::{Alarm, Claim, LeaseOutcome, PumpVerb, Store};
use tokio::time::timeout;

use crate::fixture::{LEAD_MS, START, TOKEN, delayed, fixture, job};
use crate::waiting_process::{WaitingProcess, listening};

/// Long enough for any message that is sent.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn the_doorbell_rings_when_a_queue_is_no_longer_empty() {
    let f = fixture().await;
    let other = QueueKey::try_from("shop/other").unwrap();
    let mut waiting = Vec::new();
    for _ in 0..6 {
        waiting.push(WaitingProcess::registered(&f, START, &f.queue).await);
    }
    waiting[1].register(START, &other).await;
    let mut waiting = waiting.iter_mut();
    let mut next = || waiting.next().unwrap();
    let store: Store = f.store.at(START);

    f.publish(START, job("a")).await;
    next().rang_for(&f.queue).await;
    f.publish(START, job("no ring: the queue has a job")).await;
    store.publish(&other, &[job("b")], None).await.unwrap();
    let second = next();
    second.rang_for(&other).await;
    // A release, and a job that becomes due.
    let claims = [Claim::new(100, 10)];
    let reserved = store.reserve(&f.queue, &claims).await.unwrap();
    let _ = store
        .release(&f.queue, reserved.jobs[0][0].id, 1)
        .await
        .unwrap();
    second.rang_for(&f.queue).await;
    f.reserve(START, 1, 10).await;
    f.publish(START, delayed("due", 10)).await;
    assert_eq!(f.move_due(START + 10).await.ready, 1);
    next().rang_for(&f.queue).await;
    f.reserve(START + 10, 1, 1000).await;
    assert_eq!(store.respawn(&f.queue, 5, 0).await.unwrap(), 2);
    next().rang_for(&f.queue).await;
    store.purge_ready(&f.queue).await.unwrap();
    f.publish(START, job("after a purge")).await;
    next().rang_for(&f.queue).await;
    assert!(next().is_quiet().await);
}

#[tokio::test]
async fn an_alarm_is_sent_only_for_earlier_work() {
    let f = fixture().await;
    let mut alarms = f.store.alarms();
    let mut alarm = async || timeout(SOON, alarms.next()).await.unwrap().unwrap();
    assert_eq!(alarm().await, Alarm::Resubscribed);
    let expiring = |ttl_ms| NewJob { ttl_ms, ..job("x") };
    f.publish(START, delayed("first", 5000)).await;
    f.publish(START, delayed("later: no alarm", 6000)).await;
    f.publish(START, delayed("the first far slot", 600_000))
        .await;
    f.publish(START, delayed("the same slot: no alarm", 600_001))
        .await;
    f.publish(START, delayed("a later slot: no alarm", 700_000))
        .await;
    f.publish(START, delayed("an earlier slot", 300_000)).await;
    f.publish(START, delayed("earlier", 40)).await;
    f.publish(START, expiring(9000)).await;
    f.publish(START, expiring(9500)).await;
    f.publish(START, expiring(8000)).await;
    f.reserve(START, 1, 30).await;
    let loaded_in = |delay_ms: u64| delay_ms / 65_536 * 65_536 - LEAD_MS;
    for (verb, in_ms) in [
        // The sweep checks whether the new queue is still used.
        (PumpVerb::Sweep, 60_000),
        (PumpVerb::MoveDue, 5000),
        (PumpVerb::LoadSlot, loaded_in(600_000)),
        (PumpVerb::LoadSlot, loaded_in(300_000)),
        (PumpVerb::MoveDue, 40),
        (PumpVerb::Sweep, 9000),
        (PumpVerb::Sweep, 8000),
        (PumpVerb::MoveDue, 30),
    ] {
        let bucket = 0;
        let expected = Alarm::Earlier {
            bucket,
            verb,
            in_ms,
            sent_at_ms: START,
        };
        assert_eq!(alarm().await, expected);
    }
    f.store.roster_join(0, "somebody", 1000).await.unwrap();
    assert_eq!(alarm().await, Alarm::RosterChanged);
    let living = ["other pump".to_owned()];
    let taken = f.store.lease_acquire(0, &living[0], &living).await;
    assert_eq!(taken.unwrap(), LeaseOutcome::Ours);
    let (bucket, from) = (0, TOKEN.to_owned());
    assert_eq!(alarm().await, Alarm::LockTaken { bucket, from });
}

#[tokio::test]
async fn a_subscriber_is_notified_after_it_reconnects() {
    let f = fixture().await;
    let mut doorbells = f.store.doorbells();
    for _ in 0..3 {
        timeout(SOON, listening(&mut doorbells)).await.unwrap();
        let kill = redis::cmd("CLIENT")
            .arg("KILL")
            .arg("TYPE")
            .arg("pubsub")
            .to_owned();
        kill.exec(&mut f.connection()).unwrap();
    }
}
