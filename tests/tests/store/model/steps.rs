//! The steps that a sequence is made of.

use proptest::prelude::*;
use tidegate_core::State;

/// One step. Jobs are named by their place among all that were published, modulo their number.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Publish {
        queue: usize,
        jobs: u8,
        delay_ms: u64,
        ttl_ms: u64,
        tries: u16,
        replaces: Option<usize>,
    },
    Reserve {
        queue: usize,
        count: u16,
        ttr_ms: u64,
    },
    Ack {
        job: usize,
        attempt: Option<u32>,
    },
    Cancel {
        job: usize,
    },
    Release {
        job: usize,
        attempt: u32,
    },
    PeekJob {
        job: usize,
    },
    PeekReady {
        queue: usize,
    },
    PeekDead {
        queue: usize,
    },
    Respawn {
        queue: usize,
        limit: u64,
        ttl_ms: u64,
    },
    PurgeReady {
        queue: usize,
    },
    PurgeDead {
        queue: usize,
        limit: u64,
    },
    MoveDue {
        after_ms: u64,
    },
    Sweep,
    /// Damage: a queue counts something else than it has.
    Miscount {
        queue: usize,
        state: State,
        count: i64,
    },
}

/// Any step, each now and then after counts were damaged.
pub(super) fn step_or_miscount() -> impl Strategy<Value = Step> {
    let state = proptest::sample::select(&State::ALL[..]);
    let count = prop_oneof![4 => Just(0_i64), 3 => -3..6_i64, 1 => Just(1 << 40)];
    let miscount = (0..2_usize, state, count);
    prop_oneof![
        2 => step(),
        1 => miscount.prop_map(|(queue, state, count)| Step::Miscount { queue, state, count }),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let queue = 0..2_usize;
    let job = any::<usize>();
    let delay = prop_oneof![Just(0_u64), 1..50_u64, 60_000..400_000_u64];
    let ttl = prop_oneof![2 => Just(0_u64), 1 => 1..100_u64, 1 => 100..500_000_u64];
    let wait = prop_oneof![3 => 0..60_u64, 1 => 1_000..100_000_u64];
    prop_oneof![
        4 => (queue.clone(), 1..5_u8, delay, ttl.clone(), 1..4_u16, proptest::option::weighted(0.2, job))
            .prop_map(|(queue, jobs, delay_ms, ttl_ms, tries, replaces)| Step::Publish {
                queue, jobs, delay_ms, ttl_ms, tries, replaces
            }),
        5 => (queue.clone(), 0..4_u16, prop_oneof![0..60_u64, 60_000..300_000_u64])
            .prop_map(|(queue, count, ttr_ms)| Step::Reserve { queue, count, ttr_ms }),
        2 => (job, proptest::option::of(1..4_u32)).prop_map(|(job, attempt)| Step::Ack { job, attempt }),
        1 => job.prop_map(|job| Step::Cancel { job }),
        2 => (job, 1..4_u32).prop_map(|(job, attempt)| Step::Release { job, attempt }),
        1 => job.prop_map(|job| Step::PeekJob { job }),
        1 => queue.clone().prop_map(|queue| Step::PeekReady { queue }),
        1 => queue.clone().prop_map(|queue| Step::PeekDead { queue }),
        1 => (queue.clone(), 1..4_u64, ttl)
            .prop_map(|(queue, limit, ttl_ms)| Step::Respawn { queue, limit, ttl_ms }),
        1 => queue.clone().prop_map(|queue| Step::PurgeReady { queue }),
        1 => (queue, 1..4_u64).prop_map(|(queue, limit)| Step::PurgeDead { queue, limit }),
        6 => wait.prop_map(|after_ms| Step::MoveDue { after_ms }),
        1 => Just(Step::Sweep),
    ]
}
