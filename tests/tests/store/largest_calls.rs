//! Each script at the largest size that settings and wire allow, on data of that size. A script that failed half-way
//! would leave counts and lists that differ from the records.

use std::time::Duration;

use tidegate_core::{JobId, JobState, NewJob, QueueKey};
use tidegate_store::{
    AckRequest, AuditEvent, AuditOptions, Claim, LOAD_HINTS_MAX, LoadSlotOutcome, MOVE_TIMERS_MAX,
    MoveDueOutcome, PUBLISH_JOBS_MAX, SWEEP_CHUNKS_MAX, SweepOutcome,
};
use tidegate_testkit::{consistency, print_figure};

use crate::fixture::{START, StoreFixture, TOKEN, all_queues, delayed, fixture, job};

const HOUR_MS: u64 = 3_600_000;
/// A few times the duration of the longest call.
const CALL_CPU_MAX: Duration = Duration::from_millis(40);

/// The CPU time of Redis, which the load of the machine does not change.
fn cpu_time(f: &StoreFixture) -> Duration {
    let info: String = redis::cmd("INFO")
        .arg("cpu")
        .query(&mut f.connection())
        .unwrap();
    let fields = info.lines().filter_map(|line| line.split_once(':'));
    let of_commands = fields.filter(|(name, _)| {
        ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"].contains(name)
    });
    let seconds = of_commands.map(|(_, seconds)| seconds.trim().parse::<f64>().unwrap());
    Duration::from_secs_f64(seconds.sum())
}

/// Makes one call and checks how much CPU time of Redis it takes.
pub(crate) async fn short<T>(f: &StoreFixture, what: &str, call: impl Future<Output = T>) -> T {
    let before = cpu_time(f);
    let answer = call.await;
    let took = cpu_time(f) - before;
    print_figure(&format!("{what}: {took:?}"));
    assert!(took < CALL_CPU_MAX, "{what}: {took:?}");
    answer
}

/// Neither the check of the tests nor the auditor finds a defect.
async fn expect_sound(f: &StoreFixture, now_ms: u64) {
    consistency::check(&f.redis.url()).await;
    f.store
        .at(now_ms)
        .roster_join(0, TOKEN, HOUR_MS)
        .await
        .unwrap();
    let options = AuditOptions {
        buckets: vec![],
        repair: false,
        pause: Duration::ZERO,
    };
    let mut found = Vec::new();
    let mut note = |event| {
        if let AuditEvent::Found(finding) = event {
            found.push(finding);
        }
    };
    let store = f.store.at(now_ms);
    store.audit(&options, &mut note).await.unwrap();
    assert_eq!(found, []);
}

async fn publish(f: &StoreFixture, now_ms: u64, new: &NewJob, jobs: u64) -> Vec<JobId> {
    let mut ids = Vec::new();
    while (ids.len() as u64) < jobs {
        let count = PUBLISH_JOBS_MAX.min(jobs as usize - ids.len());
        let batch = vec![new.clone(); count];
        let store = f.store.at(now_ms);
        ids.extend(store.publish(&f.queue, &batch, None).await.unwrap());
    }
    ids
}

/// A body that is stored outside of its record and can hardly be compressed.
fn large(seed: usize) -> String {
    let numbers = (1..700_u64).map(|i| (i + seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    numbers.map(|number| format!("{number:x}")).collect()
}

#[tokio::test]
async fn the_largest_sweep_deletes_full_chunks_and_keeps_counts_exact() {
    let f = fixture().await;
    let ttl_ms = 10_000;
    let timed = |body: &str| NewJob {
        ttl_ms,
        ..delayed(body, 30_000)
    };
    let full = SWEEP_CHUNKS_MAX * 100;
    // The first job of a bucket has place 1 in its chunk, not 0.
    publish(&f, START, &timed("x"), full - 1).await;
    let store = f.store.at(START + ttl_ms);
    let swept = store.sweep(0, TOKEN, SWEEP_CHUNKS_MAX);
    let expected = SweepOutcome::Done {
        expired: full - 1,
        more: false,
        // Then it checks whether the queue is still used.
        next_in_ms: Some(50_000),
    };
    assert_eq!(short(&f, "sweep", swept).await.unwrap(), expected);
    assert_eq!(f.counts().await, [0; 4]);
    assert_eq!(f.keys_of_jobs(), [""; 0]);
    // The same with ready jobs, and with large bodies, of which few fit in a chunk.
    for number in 0..SWEEP_CHUNKS_MAX as usize {
        let ready = NewJob {
            ttl_ms,
            ..job(&large(number))
        };
        publish(&f, START, &ready, 100).await;
    }
    let store = f.store.at(START + ttl_ms);
    let swept = store.sweep(0, TOKEN, SWEEP_CHUNKS_MAX);
    let SweepOutcome::Done { expired, .. } = short(&f, "sweep, with bodies", swept).await.unwrap()
    else {
        panic!("the test leads every bucket")
    };
    assert_eq!(f.sweep(START + ttl_ms).await, full - expired);
    assert_eq!(f.keys_of_jobs(), [""; 0]);
    expect_sound(&f, START + ttl_ms).await;
}

#[tokio::test]
async fn a_sweep_stops_at_its_largest_size() {
    let f = fixture().await;
    let ttl_ms = 10_000;
    let new = NewJob {
        ttl_ms,
        ..delayed("x", 30_000)
    };
    let full = SWEEP_CHUNKS_MAX * 100;
    publish(&f, START, &new, full + 100).await;
    let swept = f
        .store
        .at(START + ttl_ms)
        .sweep(0, TOKEN, 1000)
        .await
        .unwrap();
    assert!(
        matches!(swept, SweepOutcome::Done { expired, more: true, .. } if expired < full),
        "{swept:?}"
    );
    expect_sound(&f, START + ttl_ms).await;
}

#[tokio::test]
async fn the_largest_calls_load_and_move_timers_of_all_kinds() {
    let f = fixture().await;
    let far = publish(&f, START, &delayed("far", HOUR_MS), LOAD_HINTS_MAX / 2).await;
    publish(
        &f,
        START,
        &NewJob {
            ttl_ms: HOUR_MS,
            ..delayed("expires", HOUR_MS)
        },
        LOAD_HINTS_MAX / 2,
    )
    .await;
    let store = f.store.at(START + HOUR_MS - 1000);
    let loaded = store.load_slot(0, TOKEN, LOAD_HINTS_MAX);
    let expected = LoadSlotOutcome::Done {
        loaded: LOAD_HINTS_MAX,
        more: false,
        next_in_ms: None,
        next_tick_in_ms: None,
    };
    assert_eq!(short(&f, "load", loaded).await.unwrap(), expected);
    let now_ms = START + HOUR_MS;
    let store = f.store.at(now_ms);
    let moved = store.move_due(0, TOKEN, MOVE_TIMERS_MAX, crate::fixture::LOSSES_MAX);
    let MoveDueOutcome::Done {
        latenesses_ms,
        expired,
        more: false,
        ..
    } = short(&f, "move", moved).await.unwrap()
    else {
        panic!("one call was not enough")
    };
    assert_eq!(latenesses_ms.len() as u64, LOAD_HINTS_MAX / 2);
    assert_eq!(expired, LOAD_HINTS_MAX / 2);
    // Leases expire, and their jobs die.
    let claims = [Claim::new(u16::MAX, 1000)];
    let reserved = f.store.at(now_ms).reserve(&f.queue, &claims).await.unwrap();
    assert_eq!(reserved.jobs[0].len(), far.len());
    let store = f.store.at(now_ms + 1000);
    let moved = store.move_due(0, TOKEN, MOVE_TIMERS_MAX, crate::fixture::LOSSES_MAX);
    assert!(
        matches!(moved.await.unwrap(), MoveDueOutcome::Done { buried, .. } if buried == far.len() as u64)
    );
    expect_sound(&f, now_ms + 1000).await;
    // As many far hints of one job as a call loads, in a slot that the job has left.
    let id = far[0].number();
    let slot = format!("1:{}", (now_ms + 100_000) / 65_536);
    let mut push = redis::cmd("RPUSH");
    push.arg(format!("tg:0:{{8209}}:far:{slot}"));
    push.arg(vec![id; LOAD_HINTS_MAX as usize]);
    push.exec(&mut f.connection()).unwrap();
    let mut add = redis::cmd("ZADD");
    add.arg("tg:0:{8209}:slots").arg(0).arg(&slot);
    add.exec(&mut f.connection()).unwrap();
    let store = f.store.at(now_ms);
    let loaded = store.load_slot(0, TOKEN, LOAD_HINTS_MAX);
    assert!(matches!(
        loaded.await.unwrap(),
        LoadSlotOutcome::Done {
            loaded: 0,
            more: false,
            ..
        }
    ));
}

#[tokio::test]
async fn the_largest_calls_of_the_wire_leave_the_data_consistent() {
    let f = fixture().await;
    let store = f.store.at(START);
    // 64 jobs that expire: large, in 64 far slots, and at once.
    let slots: Vec<NewJob> = (0..PUBLISH_JOBS_MAX)
        .map(|number| NewJob {
            ttl_ms: HOUR_MS * 24,
            ..delayed(&large(number), 70_000 * (number as u64 + 2))
        })
        .collect();
    store.publish(&f.queue, &slots, None).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..10 {
        let new: Vec<NewJob> = (0..PUBLISH_JOBS_MAX).map(|n| job(&large(n))).collect();
        ids.extend(store.publish(&f.queue, &new, None).await.unwrap());
    }
    // As many stale hints as one call drops.
    for id in &ids[..300] {
        let _ = store
            .cancel(&f.queue, *id, tidegate_core::IfRunning::Refuse)
            .await
            .unwrap();
    }
    let peeked = store.peek_ready(&f.queue).await.unwrap().unwrap();
    assert_eq!(peeked.job.id, ids[300]);
    let claims = vec![Claim::new(100, 1000); 100];
    let reserved = store.reserve(&f.queue, &claims).await.unwrap();
    let leased: Vec<JobId> = reserved.jobs.iter().flatten().map(|job| job.id).collect();
    assert_eq!(leased, &ids[300..]);
    let done: Vec<AckRequest> = leased[..64]
        .iter()
        .map(|id| AckRequest {
            id: *id,
            attempt: Some(1),
            result: None,
        })
        .collect();
    store.ack_all(&f.queue, &done, 0).await.unwrap();
    assert_eq!(f.move_due(START + 1000).await.buried, 276);
    let store = f.store.at(START + 1000);
    assert_eq!(
        store.respawn(&f.queue, u64::MAX, HOUR_MS).await.unwrap(),
        276
    );
    assert_eq!(store.purge_ready(&f.queue).await.unwrap(), 276);
    publish(&f, START, &job("x"), 600).await;
    let reserved = store.reserve(&f.queue, &claims).await.unwrap();
    assert_eq!(reserved.jobs.iter().flatten().count(), 600);
    assert_eq!(f.move_due(START + 2000).await.buried, 600);
    assert_eq!(store.purge_dead(&f.queue, u64::MAX).await.unwrap(), 600);
    for number in 0..60 {
        let queue = QueueKey::try_from(format!("shop/q{number}").as_str()).unwrap();
        store.publish(&queue, &[job("x")], None).await.unwrap();
    }
    assert_eq!(all_queues(&store).await.len(), 61);
    expect_sound(&f, START + 2000).await;
}

/// A call collects the jobs that it makes ready or buries in lists, which are longer here than one command may be.
#[tokio::test]
async fn lists_longer_than_a_command_are_written_in_parts() {
    let f = fixture().await;
    let jobs = MOVE_TIMERS_MAX;
    publish(&f, START, &delayed("x", 1000), jobs).await;
    let moved = f
        .store
        .at(START + 1000)
        .move_due(0, TOKEN, jobs, crate::fixture::LOSSES_MAX)
        .await
        .unwrap();
    assert!(matches!(moved, MoveDueOutcome::Done { more: false, .. }));
    assert_eq!(f.counts().await, [0, jobs, 0, 0]);
    let bodies = f.reserve(START + 1000, u16::MAX, 1000).await;
    assert_eq!(bodies.len() as u64, jobs);
    f.move_due(START + 2000).await;
    let store = f.store.at(START + 2000);
    assert_eq!(store.stats(&f.queue).await.unwrap().dead, jobs);
    assert_eq!(
        store.peek_dead(&f.queue).await.unwrap().unwrap().job.state,
        JobState::Dead
    );
    expect_sound(&f, START + 2000).await;
}
