//! The width of far slots is a setting of the deployment.

use tidegate_store::LoadSlotOutcome;
use tidegate_testkit::consistency;

use crate::fixture::{START, StoreFixture, TOKEN, delayed, fixture, fixture_with_slots};

/// A divisor of the time at which tests begin.
const NARROW_MS: u32 = 512;

/// When the far slot of a job that is due then is loaded; asserts that it is not loaded before.
async fn loaded_at(f: &StoreFixture, due_at_ms: u64) -> u64 {
    let load = async |now_ms| f.store.at(now_ms).load_slot(0, TOKEN, 100).await.unwrap();
    let LoadSlotOutcome::Done {
        loaded: 0,
        more: false,
        next_in_ms: Some(wait_ms),
        ..
    } = load(START).await
    else {
        panic!("the job is in a far slot");
    };
    let at_ms = START + wait_ms;
    assert!(at_ms < due_at_ms);
    let done = load(at_ms).await;
    assert!(
        matches!(done, LoadSlotOutcome::Done { loaded: 1, .. }),
        "{done:?}"
    );
    at_ms
}

/// Two deployments with different slot widths in one process: each has its own scripts.
#[tokio::test]
async fn far_timers_are_loaded_one_width_before_their_slot_begins() {
    let (wide, narrow) = (fixture().await, fixture_with_slots(NARROW_MS).await);
    for (f, slot_ms) in [(&wide, 65_536), (&narrow, u64::from(NARROW_MS))] {
        let due_at_ms = START + 10 * slot_ms + slot_ms / 2;
        f.publish(START, delayed("far", due_at_ms - START)).await;
        let begins_at_ms = due_at_ms / slot_ms * slot_ms;
        assert_eq!(loaded_at(f, due_at_ms).await, begins_at_ms - slot_ms);
        f.move_due(due_at_ms).await;
        f.expect(due_at_ms, &["far"]).await;
        consistency::check(&f.redis.url()).await;
    }
}
