//! Units of rate limits: never more than the limit, and given back to their own window.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_store::{
    LimitCreated, LimitHolder, LimitSide, LimitUnit, RateLimit, RateLimits, Store, StoreConfig,
    StoreError, UnitTaken,
};
use tidegate_testkit::fault_proxy::{DirectionConditions, ForwardMode, NetworkConditions};
use tidegate_testkit::{FaultProxy, eventually, start_redis};
use tokio::task::JoinSet;

use crate::fixture::{START, fixture};

const UNITS: u64 = 3;
const INTERVAL_SECONDS: u32 = 10;
const INTERVAL_MS: u64 = 10_000;

fn holder(token: &str) -> LimitHolder {
    LimitHolder::new("default", "shop", token)
}

async fn take_side(store: &Store, token: &str, side: LimitSide) -> Option<LimitUnit> {
    let limits = store.limits();
    let holder = holder(token);
    let taking = limits.take(&holder, side, UNITS, INTERVAL_SECONDS);
    match taking.await.unwrap() {
        UnitTaken::Done(unit) => Some(unit),
        UnitTaken::OverLimit => None,
    }
}

async fn take(store: &Store, now_ms: u64) -> Option<LimitUnit> {
    take_side(&store.at(now_ms), "t", LimitSide::Read).await
}

async fn give_back(store: &Store, unit: LimitUnit) {
    store.limits().give_back(&holder("t"), unit).await.unwrap();
}

#[tokio::test]
async fn a_window_begins_with_its_first_unit_and_ends_an_interval_later() {
    let fixture = fixture().await;
    let store = &fixture.store;
    assert!(take(store, START + 700).await.is_some());
    let last = START + 700 + INTERVAL_MS - 1;
    assert!(take(store, START + 9_000).await.is_some());
    assert!(take(store, last).await.is_some());
    assert!(take(store, last).await.is_none());
    for _ in 0..UNITS {
        assert!(take(store, last + 1).await.is_some());
    }
    assert!(take(store, last + INTERVAL_MS).await.is_none());
    assert!(take(store, last + 1 + INTERVAL_MS).await.is_some());
}

#[tokio::test]
async fn a_unit_is_given_back_only_to_its_own_window() {
    let fixture = fixture().await;
    let store = &fixture.store;
    let mut units = Vec::new();
    while let Some(unit) = take(store, START).await {
        units.push(unit);
    }
    assert_eq!(units.len() as u64, UNITS);
    give_back(store, units.pop().unwrap()).await;
    let again = take(store, START + 1).await.unwrap();
    assert_eq!(take(store, START + 1).await, None);
    // The next window is full as well: a unit of the last one makes no room in it.
    for _ in 0..UNITS {
        assert!(take(store, START + INTERVAL_MS).await.is_some());
    }
    give_back(store, again).await;
    assert_eq!(take(store, START + INTERVAL_MS).await, None);
}

#[tokio::test]
async fn giving_back_never_counts_below_zero_and_creates_no_key() {
    let fixture = fixture().await;
    let store = &fixture.store;
    let unit = take(store, START).await.unwrap();
    for _ in 0..5 {
        give_back(store, unit.clone()).await;
    }
    for _ in 0..UNITS {
        assert!(take(store, START).await.is_some());
    }
    assert_eq!(take(store, START).await, None);
    let mut connection = fixture.connection();
    let units = "tg:units:read:default:shop/t";
    let removed: i64 = redis::cmd("DEL").arg(units).query(&mut connection).unwrap();
    assert_eq!(removed, 1);
    give_back(store, unit).await;
    let exists: bool = redis::cmd("EXISTS")
        .arg(units)
        .query(&mut connection)
        .unwrap();
    assert!(!exists);
}

#[tokio::test]
async fn each_side_and_each_token_has_separate_units() {
    let fixture = fixture().await;
    let store = &fixture.store;
    while take_side(store, "t", LimitSide::Read).await.is_some() {}
    assert!(take_side(store, "t", LimitSide::Write).await.is_some());
    assert!(take_side(store, "u", LimitSide::Read).await.is_some());
    assert!(take_side(store, "t", LimitSide::Read).await.is_none());
}

#[tokio::test]
async fn concurrent_takers_never_exceed_the_limit() {
    const TAKERS: usize = 64;
    const UNITS_MAX: u64 = 40;
    let fixture = fixture().await;
    let store = &fixture.store;
    let mut takers = JoinSet::new();
    for number in 0..TAKERS {
        let limits = store.limits();
        takers.spawn(async move {
            let mut kept = 0;
            let holder = holder("t");
            for round in 0..10 {
                let taking = limits.take(&holder, LimitSide::Write, UNITS_MAX, 3600);
                match taking.await.unwrap() {
                    UnitTaken::OverLimit => {}
                    // Some requests fail: a unit that is given back may be taken again.
                    UnitTaken::Done(unit) if (number + round) % 2 == 0 => {
                        limits.give_back(&holder, unit).await.unwrap();
                    }
                    UnitTaken::Done(_) => kept += 1,
                }
            }
            kept
        });
    }
    let kept: Vec<u64> = takers.join_all().await;
    assert_eq!(kept.iter().sum::<u64>(), UNITS_MAX);
}

#[tokio::test]
async fn an_expired_window_leaves_no_key() {
    let fixture = fixture().await;
    let limits = fixture.store.limits();
    let taken = limits.take(&holder("t"), LimitSide::Read, 1, 1).await;
    assert!(matches!(taken.unwrap(), UnitTaken::Done(_)));
    let mut connection = fixture.connection();
    eventually("no units are left", Duration::from_secs(10), async || {
        let keys: Vec<String> = redis::cmd("KEYS")
            .arg("tg:units:*")
            .query(&mut connection)
            .unwrap();
        if keys.is_empty() {
            Ok(())
        } else {
            Err(keys.len())
        }
    })
    .await;
}

#[tokio::test]
async fn limits_are_created_once_replaced_listed_and_deleted() {
    let fixture = fixture().await;
    let limits = fixture.store.limits();
    let limit = |read| RateLimit {
        read,
        write: -1,
        interval_seconds: 60,
    };
    assert_eq!(limits.get(&holder("t")).await.unwrap(), None);
    let made = limits.create(&holder("t"), limit(1)).await.unwrap();
    assert_eq!(made, LimitCreated::Done);
    let made = limits.create(&holder("t"), limit(2)).await.unwrap();
    assert_eq!(made, LimitCreated::AlreadyExists);
    assert_eq!(limits.get(&holder("t")).await.unwrap(), Some(limit(1)));
    limits.set(&holder("t"), limit(3)).await.unwrap();
    limits.set(&holder("a/b:c"), limit(4)).await.unwrap();
    let listed = limits.list().await.unwrap();
    let expected = [(holder("a/b:c"), limit(4)), (holder("t"), limit(3))];
    assert_eq!(listed, expected);
    limits.delete(&holder("t")).await.unwrap();
    limits.delete(&holder("t")).await.unwrap();
    assert_eq!(limits.get(&holder("t")).await.unwrap(), None);
}

/// The timeout of calls in the tests of lost replies.
const REPLY_MAX: Duration = Duration::from_millis(200);

async fn limits_at(address: SocketAddr) -> RateLimits {
    let mut config = StoreConfig::new(format!("redis://{address}"));
    config.buckets = 1;
    config.command_timeout = REPLY_MAX;
    Store::connect(&config).await.unwrap().limits()
}

async fn try_take(limits: &RateLimits) -> Result<bool, StoreError> {
    let holder = holder("t");
    let taking = limits.take(&holder, LimitSide::Read, UNITS, 3600);
    Ok(matches!(taking.await?, UnitTaken::Done(_)))
}

/// The units that can be taken once Redis answers again.
async fn units_left(limits: &RateLimits) -> u64 {
    eventually("redis answers", Duration::from_secs(30), async || {
        let mut units = 0;
        while try_take(limits).await.map_err(|error| error.to_string())? {
            units += 1;
        }
        Ok::<_, String>(units)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_a_paused_redis_executes_late_take_no_unit() {
    let redis = start_redis();
    let limits = limits_at(redis.address()).await;
    assert!(try_take(&limits).await.unwrap());
    redis.pause().unwrap();
    for _ in 0..UNITS {
        try_take(&limits).await.unwrap_err();
    }
    redis.resume().unwrap();
    assert_eq!(units_left(&limits).await, UNITS - 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_of_lost_replies_are_given_back() {
    let redis = start_redis();
    let proxy = FaultProxy::start(redis.address(), 0).await;
    let limits = limits_at(proxy.address()).await;
    assert!(try_take(&limits).await.unwrap());
    let replies_stall = NetworkConditions {
        to_client: DirectionConditions {
            mode: ForwardMode::Stalls,
            ..DirectionConditions::default()
        },
        ..NetworkConditions::default()
    };
    proxy.set(replies_stall);
    try_take(&limits).await.unwrap_err();
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let taken: u64 = redis::cmd("HGET")
        .arg("tg:units:read:default:shop/t")
        .arg("taken")
        .query(&mut connection)
        .unwrap();
    assert_eq!(taken, 2, "the call was executed");
    proxy.cut();
    proxy.set(NetworkConditions::default());
    // Until then the call could still be executed.
    tokio::time::sleep(2 * REPLY_MAX).await;
    assert_eq!(units_left(&limits).await, UNITS - 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_is_given_back_once_when_redis_executes_the_call_late() {
    let redis = start_redis();
    let limits = limits_at(redis.address()).await;
    let holder = holder("t");
    let mut units = Vec::new();
    for _ in 0..UNITS {
        let taking = limits.take(&holder, LimitSide::Read, UNITS, 3600);
        match taking.await.unwrap() {
            UnitTaken::Done(unit) => units.push(unit),
            UnitTaken::OverLimit => panic!("the window is full"),
        }
    }
    redis.pause().unwrap();
    let giving_back = limits.give_back(&holder, units.remove(0));
    giving_back.await.unwrap_err();
    tokio::time::sleep(2 * REPLY_MAX).await;
    redis.resume().unwrap();
    assert_eq!(units_left(&limits).await, 1);
}
