//! Far timers are in levels of slots. A hint passes from level to level and is at last a near timer, before its time.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use tidegate_core::FarSlot;
use tidegate_store::LoadSlotOutcome;
use tidegate_testkit::{consistency, random};

use crate::fixture::{START, StoreFixture, TOKEN, delayed, fixture, fixture_with_slots};

const SLOT_MS: u64 = 65_536;
const DAY_MS: u64 = 24 * 3_600_000;

/// The far slots that exist, and the number of hints in each.
fn far_slots(f: &StoreFixture) -> BTreeMap<FarSlot, usize> {
    let mut connection = f.connection();
    let mut names = redis::cmd("ZRANGE");
    names.arg("tg:0:{8209}:slots").arg(0).arg(-1);
    let names: Vec<String> = names.query(&mut connection).unwrap();
    let slots = names.into_iter().map(|name| {
        let mut length = redis::cmd("LLEN");
        length.arg(format!("tg:0:{{8209}}:far:{name}"));
        let hints = length.query(&mut connection).unwrap();
        (name.parse().unwrap(), hints)
    });
    slots.collect()
}

/// The levels of all far slots, one entry for each hint.
fn levels(f: &StoreFixture) -> Vec<u8> {
    let slots = far_slots(f);
    let levels = slots.iter();
    let levels = levels.flat_map(|(slot, hints)| vec![slot.level; *hints]);
    let mut levels: Vec<u8> = levels.collect();
    levels.sort_unstable();
    levels
}

/// One call of load_slot; returns how many hints it moved, and when the next slot is to be loaded.
async fn load(f: &StoreFixture, now_ms: u64) -> (u64, Option<u64>) {
    match f.store.at(now_ms).load_slot(0, TOKEN, 1000).await.unwrap() {
        LoadSlotOutcome::Done {
            loaded,
            more: false,
            next_in_ms,
            ..
        } => (loaded, next_in_ms.map(|wait_ms| now_ms + wait_ms)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_timer_goes_to_the_level_of_its_distance() {
    for (delay_ms, level) in [
        (2 * SLOT_MS - 1, None),
        (2 * SLOT_MS, Some(1)),
        (64 * SLOT_MS - 1, Some(1)),
        (64 * SLOT_MS, Some(2)),
        (4096 * SLOT_MS - 1, Some(2)),
        (4096 * SLOT_MS, Some(3)),
        (262_144 * SLOT_MS - 1, Some(3)),
        (262_144 * SLOT_MS, Some(4)),
        (365 * DAY_MS, Some(4)),
    ] {
        let f = fixture().await;
        f.publish(START, delayed("x", delay_ms)).await;
        let found: Vec<u8> = level.into_iter().collect();
        assert_eq!(levels(&f), found, "{delay_ms} ms");
    }
}

/// Slots of higher levels are loaded before the slots that they span, so a timer stays in level 1 near its border.
#[tokio::test]
async fn a_timer_goes_to_a_lower_level_once_its_slot_is_to_be_loaded() {
    for (slots_before, level) in [(3, 2), (2, 1), (1, 1)] {
        let f = fixture().await;
        let now_ms = START + (64 - slots_before) * SLOT_MS;
        f.publish(now_ms, delayed("x", 20 * SLOT_MS)).await;
        assert_eq!(levels(&f), [level], "{slots_before} slots before");
    }
    for (slots_before, level) in [(67, 3), (66, 2), (1, 2)] {
        let f = fixture().await;
        let now_ms = START + (4096 - slots_before) * SLOT_MS;
        f.publish(now_ms, delayed("x", 300 * SLOT_MS)).await;
        assert_eq!(levels(&f), [level], "{slots_before} slots before");
    }
    for (slots_before, level) in [(4163, 4), (4162, 3), (1, 3)] {
        let f = fixture().await;
        let now_ms = START + (262_144 - slots_before) * SLOT_MS;
        f.publish(now_ms, delayed("x", 20_000 * SLOT_MS)).await;
        assert_eq!(levels(&f), [level], "{slots_before} slots before");
    }
}

#[tokio::test]
async fn a_timer_passes_through_all_levels_and_is_on_time() {
    for f in [fixture().await, fixture_with_slots(512).await] {
        let due_at_ms = START + 240 * DAY_MS + 12_345;
        f.publish(START, delayed("x", due_at_ms - START)).await;
        let (mut now_ms, mut passed) = (START, vec![levels(&f)]);
        while let (_, Some(next_ms)) = load(&f, now_ms).await {
            assert!(next_ms > now_ms && next_ms < due_at_ms);
            assert_eq!(load(&f, next_ms - 1).await.0, 0);
            now_ms = next_ms;
            assert_eq!(load(&f, now_ms).await.0, 1);
            passed.push(levels(&f));
            consistency::check(&f.redis.url()).await;
        }
        assert_eq!(passed, [vec![4], vec![3], vec![2], vec![1], vec![]]);
        assert_eq!(f.move_due(due_at_ms - 1).await.ready, 0);
        assert_eq!(f.move_due(due_at_ms).await.ready, 1);
    }
}

/// A slot of a high level with hints for many slots below, loaded in small steps.
#[tokio::test]
async fn a_slot_of_a_high_level_is_loaded_in_bounded_steps() {
    const JOBS: u64 = 100;
    let f = fixture().await;
    for number in 0..JOBS {
        let delay_ms = 4096 * SLOT_MS + number * 40 * SLOT_MS;
        f.publish(START, delayed("x", delay_ms)).await;
    }
    assert_eq!(levels(&f), vec![3; JOBS as usize]);
    let (_, at_ms) = load(&f, START).await;
    let at_ms = at_ms.unwrap();
    for call in 1..=JOBS / 10 {
        let loaded = f.store.at(at_ms).load_slot(0, TOKEN, 10).await.unwrap();
        let LoadSlotOutcome::Done { loaded, more, .. } = loaded else {
            panic!("{loaded:?}");
        };
        assert_eq!((loaded, more), (10, call < JOBS / 10));
        consistency::check(&f.redis.url()).await;
    }
    assert!(levels(&f).iter().all(|level| *level < 3));
}

/// The hints of jobs that are cancelled stay until their slots are loaded, and are dropped then.
#[tokio::test]
async fn stale_hints_of_high_levels_are_dropped() {
    let f = fixture().await;
    for slots in [100, 200, 5000] {
        let id = f.publish(START, delayed("x", slots * SLOT_MS)).await;
        let _ = f
            .store
            .at(START)
            .cancel(&f.queue, id, tidegate_core::IfRunning::Refuse)
            .await
            .unwrap();
    }
    assert_eq!(levels(&f), [2, 2, 3]);
    let mut now_ms = START;
    while let (loaded, Some(next_ms)) = load(&f, now_ms).await {
        assert_eq!(loaded, 0);
        now_ms = next_ms;
    }
    assert_eq!(f.keys_of_jobs(), Vec::<String>::new());
}

/// Jobs due at any time of two years. Their pump sleeps until the next slot or timer, sometimes longer; the clock of
/// Redis is sometimes set back by up to a day.
#[tokio::test]
async fn random_timers_are_never_early_and_only_as_late_as_their_pump() {
    const JOBS: usize = 150;
    let f = fixture().await;
    let mut random = random("far levels");
    let mut dues = Vec::new();
    for _ in 0..JOBS {
        // As many of each magnitude.
        let delay_ms = 10_f64.powf(random.random_range(0.0..10.8)) as u64;
        f.publish(START, delayed("x", delay_ms)).await;
        dues.push(START + delay_ms);
    }
    dues.sort_unstable();
    let (mut now_ms, mut ready) = (START, 0);
    while ready < JOBS {
        let (_, load_at_ms) = load(&f, now_ms).await;
        let moved = f.move_due(now_ms).await;
        ready += moved.ready;
        let due = dues.iter().filter(|due| **due <= now_ms).count();
        assert!(ready >= due, "at {now_ms}: {ready} ready, {due} due");
        let waits_ms = moved.next_in.map(|wait| now_ms + wait.as_millis() as u64);
        let Some(next_ms) = load_at_ms.into_iter().chain(waits_ms).min() else {
            break;
        };
        if random.random_ratio(1, 20) {
            let back_ms = random.random_range(0..DAY_MS).min(now_ms - START);
            let (early, _) = load(&f, now_ms - back_ms).await;
            assert_eq!(early, 0, "nothing is to be loaded at an earlier time");
        }
        let overslept_ms = match random.random_ratio(1, 10) {
            true => random.random_range(0..DAY_MS),
            false => 0,
        };
        assert_eq!(ready, dues.iter().filter(|due| **due <= now_ms).count());
        now_ms = next_ms.max(now_ms) + overslept_ms;
    }
    assert_eq!(ready, JOBS);
    assert_eq!(far_slots(&f), BTreeMap::new());
    assert_eq!(f.move_due(now_ms).await.next_in, None::<Duration>);
    consistency::check(&f.redis.url()).await;
}
