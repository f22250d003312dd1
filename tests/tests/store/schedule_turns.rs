//! Ticks of many schedules: namespaces and schedules take turns, and the ticks of a call are published together.

use std::collections::BTreeSet;

use tidegate_core::QueueKey;
use tidegate_core::schedule::Overlap;
use tidegate_core::v1::publish::PublishResult;
use tidegate_store::{
    LoadSlotOutcome, NamespacedName, SchedulesDue, TableSetOutcome, TickOutcome, TickPublish,
};
use tidegate_testkit::consistency;

use crate::fixture::{START, StoreFixture, TOKEN, fixture};
use crate::schedules::{MINUTE, each_minute, key, publish_of};

impl StoreFixture {
    /// Sets schedules of this namespace, each minute, on one queue.
    async fn set_schedules(&self, namespace: &str, schedules: usize) {
        let daily = each_minute(Overlap::Allow, "a");
        let queue = QueueKey::try_from(&*format!("{namespace}/orders")).unwrap();
        for number in 0..schedules {
            let key = format!("{namespace}/s{number:03}");
            let key = NamespacedName::try_from(&*key).unwrap();
            let store = self.store.at(START + 1).schedules();
            let set = store.set(&key, &queue, &daily, None).await.unwrap();
            assert!(matches!(set, TableSetOutcome::Done(_)), "{set:?}");
        }
    }

    /// Publishes the ticks that a call returns, in one call. Returns their schedules.
    async fn run_round(&self, now_ms: u64, limit: u64) -> Vec<String> {
        let store = self.store.at(now_ms);
        let due = store.schedules_due(0, TOKEN, limit).await.unwrap();
        let SchedulesDue::Some { ticks, .. } = due else {
            panic!("the test leads the bucket");
        };
        let daily = each_minute(Overlap::Allow, "a");
        let publishes = ticks.iter().map(|tick| {
            let queue = format!("{}/orders", tick.key.namespace);
            publish_of(tick, &QueueKey::try_from(&*queue).unwrap(), &daily)
        });
        let publishes: Vec<_> = publishes.collect();
        let published = store.schedule_publish(0, &publishes).await.unwrap();
        let created = TickOutcome::Published(Ok(PublishResult::Created));
        assert_eq!(published.outcomes, vec![created; ticks.len()]);
        ticks.iter().map(|tick| tick.key.to_string()).collect()
    }
}

/// A namespace with many overdue ticks, also of one schedule, must not delay a single tick of another one.
#[tokio::test]
async fn namespaces_and_their_schedules_take_turns() {
    let f = fixture().await;
    f.set_schedules("flood", 8).await;
    let long_overdue_ms = START + 5 * MINUTE;
    for _ in 0..3 {
        assert_eq!(f.run_round(long_overdue_ms, 4).await.len(), 4);
    }
    f.set_schedules("shop", 1).await;
    let other = f.run_round(long_overdue_ms, 2).await;
    assert!(other.contains(&"shop/s000".to_owned()), "{other:?}");
    // Both have a backlog now, and equal shares.
    let round = f.run_round(long_overdue_ms, 4).await;
    let of_flood: Vec<_> = round
        .iter()
        .filter(|name| name.starts_with("flood"))
        .collect();
    assert_eq!((of_flood.len(), round.len()), (3, 4), "{round:?}");
    // Half of the places are for schedules of a namespace that have had no tick yet.
    let f = fixture().await;
    f.set_schedules("flood", 6).await;
    let mut served = Vec::new();
    for _ in 0..3 {
        served.extend(f.run_round(long_overdue_ms, 4).await);
    }
    let first: BTreeSet<_> = served[..8].iter().collect();
    assert_eq!((first.len(), served.len()), (6, 12), "{served:?}");
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn the_ticks_of_a_call_are_published_in_one_script_call() {
    const TICKS: usize = 100;
    let f = fixture().await;
    f.set_schedules("shop", TICKS).await;
    let scripts = || -> u64 {
        let stats: String = f.query(&["INFO", "commandstats"]);
        let of_scripts = stats
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        of_scripts
            .map(|rest| rest.split(',').next().unwrap().parse::<u64>().unwrap())
            .sum()
    };
    // The first call loads the scripts.
    assert_eq!(f.run_round(START + MINUTE, 1).await.len(), 1);
    let before = scripts();
    assert_eq!(f.run_round(START + MINUTE, 128).await.len(), TICKS - 1);
    assert_eq!(
        scripts() - before,
        2,
        "one to read the ticks, one to publish"
    );
    consistency::check(&f.redis.url()).await;
}

/// The clock of Redis was ahead, so that ticks have run that are still to come.
#[tokio::test]
async fn a_schedule_runs_again_after_the_clock_was_set_back() {
    let f = fixture().await;
    let daily = each_minute(Overlap::Allow, "a");
    f.set_schedule(START + 1, &daily).await;
    let ahead_ms = START + 60 * MINUTE;
    assert_eq!(f.ticks(ahead_ms).await.0.len(), 1);
    let (ticks, _) = f.ticks(ahead_ms).await;
    let publish = TickPublish {
        next_ms: Some(ahead_ms + MINUTE),
        ..publish_of(&ticks[0], &f.queue, &daily)
    };
    let published = f.store.at(ahead_ms).schedule_publish(0, &[publish]).await;
    assert_eq!(published.unwrap().next_in_ms, Some(MINUTE));
    let load = async |now_ms: u64| match f.store.at(now_ms).load_slot(0, TOKEN, 10).await.unwrap() {
        LoadSlotOutcome::Done {
            next_tick_in_ms, ..
        } => next_tick_in_ms,
        LoadSlotOutcome::NotLeading => panic!("the test leads the bucket"),
    };
    // A clock that goes back slightly, at a failover, repeats nothing.
    assert_eq!(load(ahead_ms - 9_000).await, Some(MINUTE + 9_000));
    let now_ms = START + 3 * MINUTE + 5;
    assert_eq!(load(now_ms).await, Some(0), "all schedules are looked at");
    let (ticks, _) = f.ticks(now_ms).await;
    assert_eq!(ticks[0].tick_ms, None);
    let (store, known) = (f.store.at(now_ms), Some(ticks[0].revision.as_slice()));
    let key = key();
    let stored = store.schedules().get(&key).await.unwrap().unwrap();
    let revision = stored.revision.unwrap();
    let set = store.schedule_set(&key, &f.queue, &daily, revision, known);
    assert!(set.await.unwrap());
    assert_eq!(f.ticks(now_ms).await, (vec![], Some(START + 4 * MINUTE)));
    assert_eq!(load(now_ms).await, Some(MINUTE - 5), "once");
}
