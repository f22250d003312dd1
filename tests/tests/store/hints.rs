//! The record is the truth: stale hints are dropped, and never delivered, counted or answered as
//! "no job".

use std::time::Duration;

use tidegate_core::NewJob;
use tidegate_store::{CancelOutcome, LoadSlotOutcome};
use tidegate_testkit::consistency;

use crate::fixture::{LEAD_MS, Moved, START, StoreFixture, TOKEN, delayed, fixture, job};

#[tokio::test]
async fn one_reserve_finds_the_live_job_behind_any_number_of_stale_hints() {
    live_job_behind_stale_hints(false).await;
}

#[tokio::test]
async fn one_peek_finds_the_live_job_behind_any_number_of_stale_hints() {
    live_job_behind_stale_hints(true).await;
}

async fn live_job_behind_stale_hints(peek_first: bool) {
    let f = fixture().await;
    let store = f.store.at(START);
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.extend(
            store
                .publish(&f.queue, &vec![job("cancelled"); 64], None)
                .await
                .unwrap(),
        );
    }
    f.publish(START, job("live")).await;
    for id in ids {
        assert!(matches!(
            store
                .cancel(&f.queue, id, tidegate_core::IfRunning::Refuse)
                .await
                .unwrap(),
            CancelOutcome::Done { .. }
        ));
    }
    assert_eq!(f.counts().await, [0, 1, 0, 0]);
    if peek_first {
        let head = store.peek_ready(&f.queue).await.unwrap().unwrap().job;
        assert_eq!(&head.body[..], b"live");
    }
    f.expect(START, &["live"]).await;
}

#[tokio::test]
async fn far_jobs_become_due_and_cancelled_ones_do_not() {
    let f = fixture().await;
    f.move_due(START).await;
    let hour = 3_600_000;
    let cancelled = f.publish(START, delayed("cancelled", hour)).await;
    f.publish(START, delayed("kept", hour)).await;
    let _ = f
        .store
        .at(START)
        .cancel(&f.queue, cancelled, tidegate_core::IfRunning::Refuse)
        .await
        .unwrap();
    let moved = f.move_due(START + hour - 1).await;
    assert_eq!((moved.ready, moved.next_in.unwrap().as_millis()), (0, 1));
    assert_eq!(
        f.move_due(START + hour).await,
        Moved {
            ready: 1,
            ..Moved::default()
        }
    );
    f.expect(START + hour, &["kept"]).await;
}

#[tokio::test]
async fn a_slot_is_loaded_in_bounded_steps_ahead_of_its_time() {
    let f = fixture().await;
    let in_ten_slots = 10 * 65_536;
    for _ in 0..3 {
        let jobs = vec![delayed("x", in_ten_slots); 50];
        f.store
            .at(START)
            .publish(&f.queue, &jobs, None)
            .await
            .unwrap();
    }
    let load = async |now_ms| f.store.at(now_ms).load_slot(0, TOKEN, 100).await.unwrap();
    let next_in_ms = Some(in_ten_slots - LEAD_MS);
    let nothing = LoadSlotOutcome::Done {
        loaded: 0,
        more: false,
        next_in_ms,
        next_tick_in_ms: None,
    };
    assert_eq!(load(START).await, nothing);
    let early = START + in_ten_slots - LEAD_MS - 1;
    assert_eq!(
        load(early).await,
        LoadSlotOutcome::Done {
            loaded: 0,
            more: false,
            next_in_ms: Some(1),
            next_tick_in_ms: None,
        }
    );
    assert_eq!(
        load(early + 1).await,
        LoadSlotOutcome::Done {
            loaded: 100,
            more: true,
            next_in_ms: Some(0),
            next_tick_in_ms: None,
        }
    );
    assert_eq!(
        load(early + 1).await,
        LoadSlotOutcome::Done {
            loaded: 50,
            more: false,
            next_in_ms: None,
            next_tick_in_ms: None,
        }
    );
    assert_eq!(f.move_due(START + in_ten_slots).await.ready, 150);
}

#[tokio::test]
async fn far_jobs_with_large_numbers_become_due() {
    let f = fixture().await;
    for seq in [9_999_999_u64, 137_438_953_471, 70_000_000_000_000] {
        let set = redis::cmd("SET").arg("tg:0:{8209}:seq").arg(seq).to_owned();
        set.exec(&mut f.connection()).unwrap();
        let hour = 3_600_000 + 65_535;
        let ids = f
            .store
            .at(START)
            .publish(&f.queue, &vec![delayed("x", hour); 3], None)
            .await
            .unwrap();
        assert_eq!(ids[2].number(), seq + 3);
        assert_eq!(f.move_due(START + hour).await.ready, 3, "{seq}");
        assert_eq!(f.reserve(START + hour, 3, 1).await.len(), 3);
        for id in ids {
            let _ = f.store.at(START).ack(&f.queue, id, None).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_stale_far_hint_does_not_change_a_newer_timer() {
    let f = fixture().await;
    f.move_due(START).await;
    let id = f
        .publish(
            START,
            NewJob {
                tries: 9,
                ..job("a")
            },
        )
        .await;
    // The first lease would expire in five minutes, so it has a far hint.
    assert_eq!(f.reserve(START, 1, 300_000).await, ["a"]);
    let _ = f.store.at(START).release(&f.queue, id, 1).await.unwrap();
    // The second one expires in ten minutes. The stale hint is loaded first, and its job is not due.
    assert_eq!(f.reserve(START, 1, 600_000).await, ["a"]);
    let moved = f.move_due(START + 300_000).await;
    // Its timer stays near, at most four slots ahead.
    let next_in = Some(Duration::from_millis(4 * 65_536));
    assert_eq!((moved.ready, moved.next_in), (0, next_in));
    assert_eq!(f.move_due(START + 599_999).await.ready, 0);
    assert_eq!(f.move_due(START + 600_000).await.ready, 1);
    // A lease that expires before a stale far hint keeps its time when that hint is loaded.
    assert_eq!(f.reserve(START + 600_000, 1, 300_000).await, ["a"]);
    let _ = f.store.at(START).release(&f.queue, id, 3).await.unwrap();
    let before_stale = START + 899_000;
    f.move_due(before_stale - 500).await;
    assert_eq!(f.reserve(before_stale - 500, 1, 500).await, ["a"]);
    assert_eq!(f.move_due(before_stale).await.ready, 1);
}

#[tokio::test]
async fn jobs_due_in_the_same_millisecond_keep_their_order() {
    let f = fixture().await;
    f.move_due(START).await;
    let bodies: Vec<String> = (1..=12).map(|number| number.to_string()).collect();
    let jobs: Vec<NewJob> = bodies.iter().map(|body| delayed(body, 10)).collect();
    f.store
        .at(START)
        .publish(&f.queue, &jobs, None)
        .await
        .unwrap();
    f.move_due(START + 10).await;
    assert_eq!(f.reserve(START + 10, 100, 1).await, bodies);
}

#[tokio::test]
async fn a_list_with_only_stale_hints_is_deleted() {
    let f = fixture().await;
    f.move_due(START).await;
    let store = f.store.at(START);
    for _ in 0..2 {
        let ids = store
            .publish(&f.queue, &vec![job("x"); 64], None)
            .await
            .unwrap();
        for id in ids {
            let _ = store
                .cancel(&f.queue, id, tidegate_core::IfRunning::Refuse)
                .await
                .unwrap();
        }
        let id = f.publish(START, job("dies")).await;
        f.expect(START, &["dies"]).await;
        f.move_due(START + 1000).await;
        let _ = store.ack(&f.queue, id, None).await.unwrap();
        assert_eq!(f.keys_of_jobs(), Vec::<String>::new());
    }
}

/// The number of hints in all far slots.
fn far_hints(f: &StoreFixture) -> usize {
    let script = "local hints = 0
                  for _, key in ipairs(redis.call('KEYS', 'tg:0:{8209}:far:*')) do
                    hints = hints + redis.call('LLEN', key)
                  end
                  return hints";
    let mut count = redis::cmd("EVAL");
    count.arg(script).arg(0);
    count.query(&mut f.connection()).unwrap()
}

#[tokio::test]
async fn a_job_leased_many_times_keeps_one_far_hint_per_loaded_slot() {
    const CYCLES: u64 = 50;
    let f = fixture().await;
    let new = NewJob {
        tries: 1000,
        ..job("a")
    };
    let id = f.publish(START, new).await;
    // Leases that end in two slots, then one that ends later.
    let slots_ms = [3 * 65_536, 4 * 65_536];
    let mut attempt = 0;
    for ttr_ms in slots_ms {
        for _ in 0..CYCLES {
            assert_eq!(f.reserve(START, 1, ttr_ms).await, ["a"]);
            attempt += 1;
            let store = f.store.at(START);
            let _ = store.release(&f.queue, id, attempt).await.unwrap();
        }
    }
    let last_ms = 20 * 65_536;
    assert_eq!(f.reserve(START, 1, last_ms).await, ["a"]);
    assert_eq!(far_hints(&f), 2 * CYCLES as usize + 1);
    for (ttr_ms, expected) in slots_ms.into_iter().zip([CYCLES as usize + 1, 0]) {
        let store = f.store.at(START + ttr_ms - LEAD_MS);
        let loaded = store.load_slot(0, TOKEN, 512).await.unwrap();
        assert!(matches!(loaded, LoadSlotOutcome::Done { loaded: 1, .. }));
        assert_eq!(far_hints(&f), expected);
    }
    assert_eq!(f.move_due(START + last_ms - 1).await.ready, 0);
    assert_eq!(f.move_due(START + last_ms).await.ready, 1);
    assert_eq!(far_hints(&f), 0);
    consistency::check(&f.redis.url()).await;
}

/// Leases of a day that are acknowledged at once leave no hint for a day.
#[tokio::test]
async fn hints_of_ended_leases_are_gone_after_a_few_slots() {
    const JOBS: u16 = 200;
    let f = fixture().await;
    for _ in 0..JOBS {
        let id = f.publish(START, job("x")).await;
        assert_eq!(f.reserve(START, 1, 86_400_000).await, ["x"]);
        let _ = f.store.at(START).ack(&f.queue, id, None).await.unwrap();
    }
    assert_eq!(far_hints(&f), usize::from(JOBS));
    f.move_due(START + 4 * 65_536).await;
    assert_eq!(f.keys_of_jobs(), Vec::<String>::new());
}

#[tokio::test]
async fn a_lease_that_ends_in_a_far_slot_expires_in_time() {
    const TTR_MS: u64 = 600_000;
    let f = fixture().await;
    f.publish(
        START,
        NewJob {
            tries: 2,
            ..job("a")
        },
    )
    .await;
    assert_eq!(f.reserve(START, 1, TTR_MS).await, ["a"]);
    assert_eq!(f.move_due(START + TTR_MS - 1).await.ready, 0);
    assert_eq!(f.move_due(START + TTR_MS).await.ready, 1);
    f.expect(START + TTR_MS, &["a"]).await;
}

#[tokio::test]
async fn a_timer_that_is_too_early_is_set_again() {
    let f = fixture().await;
    let id = f.publish(START, delayed("a", 50_000)).await;
    for (index, member) in [("near:1", id.number()), ("due", 1)] {
        redis::cmd("ZADD")
            .arg(format!("tg:0:{{8209}}:{index}"))
            .arg(START + 10)
            .arg(member)
            .exec(&mut f.connection())
            .unwrap();
    }
    let moved = f.move_due(START + 10).await;
    assert_eq!(moved.ready, 0);
    assert_eq!(moved.next_in, Some(Duration::from_millis(49_990)));
    assert_eq!(f.move_due(START + 50_000).await.ready, 1);
}
