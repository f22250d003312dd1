//! The life of a job with a key that clients wait for: steps that single ones rarely make in this order.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::{IfExists, IfRunning};
use tidegate_store::{AfterFailure, LeaseLength};

use super::strategies::{job, result};
use super::{DueSpec, JobSpec, KEYS, NameSpec, NativeStep, QUEUES};

/// Longer than a job stays that a client has waited for.
const RETAINED_MS: u64 = 15_000;

/// A publish with a key of a job that is due at once.
fn publish(queue: usize, key: u8) -> impl Strategy<Value = NativeStep> {
    let if_exists = select(vec![IfExists::Keep, IfExists::Replace, IfExists::Replace]);
    let job = (job(), if_exists).prop_map(move |(job, if_exists)| JobSpec {
        key: Some(key),
        if_exists,
        request: None,
        due: DueSpec::InMs(0),
        start_within_ms: 0,
        priority: 0,
        ..job
    });
    job.prop_map(move |job| NativeStep::PublishKeyed {
        queue,
        jobs: vec![job],
        max_jobs: None,
        atomic: false,
    })
}

fn look(queue: usize, job: NameSpec) -> Just<NativeStep> {
    Just(NativeStep::Result { queue, job })
}

/// What clients do while a worker has the job.
fn meanwhile(queue: usize, key: u8) -> impl Strategy<Value = NativeStep> {
    let job = NameSpec::Key(key);
    let if_running = IfRunning::Ask;
    prop_oneof![
        3 => publish(queue, key),
        1 => look(queue, job),
        1 => Just(NativeStep::Cancel { queue, job, if_running }),
    ]
}

fn end() -> impl Strategy<Value = NativeStep> {
    let deliveries = vec![0, 1, 2];
    let then = select(vec![AfterFailure::Bury, AfterFailure::RetryInMs(0)]);
    let retain_ms = select(vec![0, 0, 1000, RETAINED_MS]);
    let (acked, failed) = (deliveries.clone(), deliveries);
    prop_oneof![
        5 => (vec(option::weighted(0.8, result()), 1..4), retain_ms).prop_map(move |(results, retain_ms)| {
            NativeStep::Ack { deliveries: acked.clone(), by_attempt: true, retain_ms, results }
        }),
        1 => then.prop_map(move |then| NativeStep::Fail { deliveries: failed.clone(), then }),
    ]
}

/// What happens to the job that has ended, and to its key.
fn afterwards(queue: usize, key: u8) -> impl Strategy<Value = NativeStep> {
    let after_ms = prop_oneof![0..2000_u64, 9000..RETAINED_MS];
    prop_oneof![
        2 => publish(queue, key),
        2 => look(queue, NameSpec::Delivered(0)),
        1 => look(queue, NameSpec::Key(key)),
        1 => Just(NativeStep::Respawn { queue, limit: 3, ttl_ms: 0 }),
        1 => after_ms.prop_map(|after_ms| NativeStep::MoveDue { after_ms }),
        1 => Just(NativeStep::Sweep),
    ]
}

pub(super) fn steps_of_one_job() -> impl Strategy<Value = Vec<NativeStep>> {
    (0..QUEUES, 0..KEYS).prop_flat_map(|(queue, key)| {
        let reserve = NativeStep::Reserve {
            queue,
            count: 3,
            max_running: None,
            lease: LeaseLength::Ms(60_000),
        };
        let parts = (
            publish(queue, key),
            vec(meanwhile(queue, key), 0..3),
            end(),
            vec(afterwards(queue, key), 0..5),
        );
        parts.prop_map(move |(first, meanwhile, end, afterwards)| {
            let mut steps = vec![first, reserve.clone()];
            steps.extend(meanwhile);
            steps.push(end);
            steps.extend(afterwards);
            steps
        })
    })
}
