//! The steps of a sequence.

use proptest::prelude::*;
use tidegate_core::JobState;

/// One step. Jobs are given by their index among all published jobs, modulo the number of these.
#[derive(Debug, Clone)]
pub(super) enum ModelStep {
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
    /// Damage: the count of a queue is wrong.
    Miscount {
        queue: usize,
        state: JobState,
        count: i64,
    },
}

/// Any step, and in a third of the cases damage to a count.
pub(super) fn step_or_miscount() -> impl Strategy<Value = ModelStep> {
    let state = proptest::sample::select(&JobState::ALL[..]);
    let count = prop_oneof![4 => Just(0_i64), 3 => -3..6_i64, 1 => Just(1 << 40)];
    let miscount = (0..2_usize, state, count);
    prop_oneof![
        2 => step(),
        1 => miscount.prop_map(|(queue, state, count)| ModelStep::Miscount { queue, state, count }),
    ]
}

pub(super) fn step() -> impl Strategy<Value = ModelStep> {
    let queue = 0..2_usize;
    let job = any::<usize>();
    let delay = prop_oneof![Just(0_u64), 1..50_u64, 60_000..400_000_u64];
    let ttl = prop_oneof![2 => Just(0_u64), 1 => 1..100_u64, 1 => 100..500_000_u64];
    let wait = prop_oneof![3 => 0..60_u64, 1 => 1_000..100_000_u64];
    prop_oneof![
        4 => (queue.clone(), 1..5_u8, delay, ttl.clone(), 1..4_u16, proptest::option::weighted(0.2, job))
            .prop_map(|(queue, jobs, delay_ms, ttl_ms, tries, replaces)| ModelStep::Publish {
                queue, jobs, delay_ms, ttl_ms, tries, replaces
            }),
        5 => (queue.clone(), 0..4_u16, prop_oneof![0..60_u64, 60_000..300_000_u64])
            .prop_map(|(queue, count, ttr_ms)| ModelStep::Reserve { queue, count, ttr_ms }),
        2 => (job, proptest::option::of(1..4_u32)).prop_map(|(job, attempt)| ModelStep::Ack { job, attempt }),
        1 => job.prop_map(|job| ModelStep::Cancel { job }),
        2 => (job, 1..4_u32).prop_map(|(job, attempt)| ModelStep::Release { job, attempt }),
        1 => job.prop_map(|job| ModelStep::PeekJob { job }),
        1 => queue.clone().prop_map(|queue| ModelStep::PeekReady { queue }),
        1 => queue.clone().prop_map(|queue| ModelStep::PeekDead { queue }),
        1 => (queue.clone(), 1..4_u64, ttl)
            .prop_map(|(queue, limit, ttl_ms)| ModelStep::Respawn { queue, limit, ttl_ms }),
        1 => queue.clone().prop_map(|queue| ModelStep::PurgeReady { queue }),
        1 => (queue, 1..4_u64).prop_map(|(queue, limit)| ModelStep::PurgeDead { queue, limit }),
        6 => wait.prop_map(|after_ms| ModelStep::MoveDue { after_ms }),
        1 => Just(ModelStep::Sweep),
    ]
}
