//! The steps of an interleaving.

use proptest::prelude::*;

pub(super) const PODS: usize = 2;
pub(super) const PUMPS: usize = 2;

/// One step. `calls` is 2 where the first answer was lost and the client repeats its call.
#[derive(Debug, Clone)]
pub(super) enum InterleavedStep {
    Tick {
        after_ms: u64,
    },
    /// The clock of Redis is set back.
    SetBack {
        by_ms: u64,
    },
    Publish {
        jobs: u8,
        delay_ms: u64,
        ttl_ms: u64,
        tries: u16,
        calls: u8,
    },
    Reserve {
        pod: usize,
        count: u16,
        ttr_ms: u64,
        heard: bool,
    },
    Ack {
        pod: usize,
        by_attempt: bool,
        calls: u8,
    },
    Release {
        pod: usize,
    },
    Cancel {
        job: usize,
        calls: u8,
    },
    Respawn {
        ttl_ms: u64,
    },
    Steal {
        pump: usize,
    },
    LoadSlot {
        pump: usize,
        limit: u64,
    },
    MoveDue {
        pump: usize,
        limit: u64,
    },
    Sweep {
        pump: usize,
        limit: u64,
    },
    ForgetScripts,
}

pub(super) fn step() -> impl Strategy<Value = InterleavedStep> {
    let (pod, pump) = (0..PODS, 0..PUMPS);
    let calls = prop_oneof![4 => Just(1_u8), 1 => Just(2_u8)];
    let delay = prop_oneof![Just(0_u64), 1..50_u64, 60_000..400_000_u64];
    let ttl = prop_oneof![2 => Just(0_u64), 1 => 1..100_u64, 1 => 100..500_000_u64];
    let ttr = prop_oneof![1..60_u64, 60_000..300_000_u64];
    let wait = prop_oneof![3 => 1..60_u64, 2 => 1_000..200_000_u64];
    let publish = (1..4_u8, delay, ttl.clone(), 1..3_u16, calls.clone());
    let reserve = (pod.clone(), 1..3_u16, ttr, proptest::bool::weighted(0.8));
    let ack = (pod.clone(), any::<bool>(), calls.clone());
    prop_oneof![
        5 => wait.clone().prop_map(|after_ms| InterleavedStep::Tick { after_ms }),
        1 => wait.prop_map(|by_ms| InterleavedStep::SetBack { by_ms }),
        3 => publish.prop_map(|(jobs, delay_ms, ttl_ms, tries, calls)| InterleavedStep::Publish {
            jobs, delay_ms, ttl_ms, tries, calls
        }),
        5 => reserve.prop_map(|(pod, count, ttr_ms, heard)| InterleavedStep::Reserve { pod, count, ttr_ms, heard }),
        2 => ack.prop_map(|(pod, by_attempt, calls)| InterleavedStep::Ack { pod, by_attempt, calls }),
        2 => pod.prop_map(|pod| InterleavedStep::Release { pod }),
        1 => (any::<usize>(), calls).prop_map(|(job, calls)| InterleavedStep::Cancel { job, calls }),
        1 => ttl.prop_map(|ttl_ms| InterleavedStep::Respawn { ttl_ms }),
        1 => pump.clone().prop_map(|pump| InterleavedStep::Steal { pump }),
        3 => (pump.clone(), 1..4_u64).prop_map(|(pump, limit)| InterleavedStep::LoadSlot { pump, limit }),
        6 => (pump.clone(), 1..4_u64).prop_map(|(pump, limit)| InterleavedStep::MoveDue { pump, limit }),
        1 => (pump, 1..3_u64).prop_map(|(pump, limit)| InterleavedStep::Sweep { pump, limit }),
        1 => Just(InterleavedStep::ForgetScripts),
    ]
}
