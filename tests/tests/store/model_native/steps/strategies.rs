//! The steps of a sequence at random.

use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::v1::FieldChange;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::publish::DueTime;
use tidegate_core::v1::values::{DurationMs, Priority, Timestamp};
use tidegate_core::{IfExists, IfRunning, RetryDelays, RetrySteps};
use tidegate_store::{AfterFailure, LeaseLength};

use super::of_one_job::steps_of_one_job;
use super::{
    ContentSpec, DueSpec, JobSpec, KEYS, NameSpec, NativeStep, QUEUES, REQUESTS, ResultSpec,
};
use crate::fixture::START;

/// Delays: none, short ones, and some for each level of far timers.
fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => Just(0_u64),
        3 => 1..3000_u64,
        1 => 60_000..400_000_u64,
        1 => 4_000_000..40_000_000_u64,
        1 => 400_000_000..3_000_000_000_u64,
    ]
}

/// As long as delays, but mostly shorter.
fn wait() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..100_u64,
        4 => 500..6000_u64,
        2 => 60_000..500_000_u64,
        1 => 4_000_000..40_000_000_u64,
        1 => 400_000_000..3_000_000_000_u64,
    ]
}

fn content() -> impl Strategy<Value = ContentSpec> {
    let length = prop_oneof![4 => 1..40_usize, 1 => 200..900_usize, 1 => 1100..3000_usize, 1 => 4500..9000_usize];
    (length, any::<bool>()).prop_map(|(length, compressible)| ContentSpec {
        length,
        compressible,
    })
}

/// Some are empty, and a few are so large that they have a call of their own.
pub(super) fn result() -> impl Strategy<Value = ResultSpec> {
    let length = prop_oneof![1 => Just(0_usize), 1 => 66_000..90_000_usize];
    let other = (length, any::<bool>()).prop_map(|(length, compressible)| ContentSpec {
        length,
        compressible,
    });
    let content = prop_oneof![8 => content(), 1 => other];
    (content, any::<bool>()).prop_map(|(content, has_attributes)| ResultSpec {
        content,
        has_attributes,
    })
}

pub(super) fn job() -> impl Strategy<Value = JobSpec> {
    let if_exists = select(vec![IfExists::Keep, IfExists::Replace, IfExists::Reject]);
    let due = prop_oneof![
        4 => delay().prop_map(DueSpec::InMs),
        1 => (-500..5000_i64).prop_map(DueSpec::Offset),
    ];
    let ttl = prop_oneof![3 => Just(0_u64), 1 => 1..4000_u64, 1 => 60_000..500_000_u64];
    let steps = prop_oneof![
        vec(0..4000_u64, 1..4).prop_map(RetrySteps::Listed),
        (1..2000_u64, 1.0..3.0, 0..9000_u64).prop_map(|(first_ms, factor, more_ms)| {
            RetrySteps::Growing {
                first_ms,
                factor,
                max_ms: first_ms + more_ms,
            }
        }),
    ];
    let retry = (steps, select(vec![0_u16, 0, 100]));
    let retry = retry.prop_map(|(steps, jitter_permille)| RetryDelays {
        steps,
        jitter_permille,
    });
    let options = (
        option::weighted(0.2, 100..5000_u32),
        option::weighted(0.3, 1..5_u16),
        option::weighted(0.3, retry),
        option::weighted(0.3, select(vec![0_u32, 1000, 5000, 400_000])),
    );
    let key = option::weighted(0.8, 0..KEYS);
    let request = option::weighted(
        0.25,
        (0..REQUESTS, prop_oneof![4 => Just(1_u64), 1 => Just(2_u64)]),
    );
    let content = (content(), weighted(0.3), priority());
    (key, if_exists, request, due, ttl, content, options).prop_map(
        |(
            key,
            if_exists,
            request,
            due,
            start_within_ms,
            (content, is_awaited, priority),
            options,
        )| {
            let (lease_ms, max_attempts, retry, retain_ms) = options;
            JobSpec {
                key,
                if_exists,
                request,
                due,
                start_within_ms,
                priority,
                content,
                is_awaited,
                lease_ms,
                max_attempts,
                retry,
                retain_ms,
            }
        },
    )
}

fn priority() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0), 2 => 0..5_u8]
}

fn name() -> impl Strategy<Value = NameSpec> {
    prop_oneof![
        3 => (0..KEYS).prop_map(NameSpec::Key),
        1 => any::<usize>().prop_map(NameSpec::Published),
        1 => (0..4_usize).prop_map(NameSpec::Delivered),
    ]
}

fn publishes() -> impl Strategy<Value = NativeStep> {
    let max_jobs = option::weighted(0.3, 0..7_u64);
    let keyed = (0..QUEUES, vec(job(), 1..5), max_jobs.clone(), weighted(0.3));
    let replaces = option::weighted(0.2, any::<usize>());
    let plain_job = job().prop_map(|job| JobSpec {
        key: None,
        request: None,
        ..job
    });
    let plain = (
        0..QUEUES,
        vec(plain_job, 1..4),
        option::weighted(0.7, 1..4_u16),
        max_jobs,
        replaces,
    );
    prop_oneof![
        3 => keyed.prop_map(|(queue, jobs, max_jobs, atomic)| NativeStep::PublishKeyed {
            queue, jobs, max_jobs, atomic
        }),
        1 => plain.prop_map(|(queue, jobs, tries, max_jobs, replaces)| NativeStep::Publish {
            queue, jobs, tries, max_jobs, replaces
        }),
    ]
}

/// The verbs of consumers. Most calls are about recent deliveries, which may hold their jobs.
fn consumes() -> impl Strategy<Value = NativeStep> {
    let lease = prop_oneof![
        3 => prop_oneof![1..3000_u64, 60_000..600_000_u64].prop_map(LeaseLength::Ms),
        1 => (1..9000_u64).prop_map(LeaseLength::OfJobOrMs),
        1 => Just(LeaseLength::AsConfigured),
    ];
    let deliveries = vec(prop_oneof![4 => 0..4_usize, 1 => any::<usize>()], 1..4);
    let retain = prop_oneof![3 => Just(0_u64), 1 => 1..9000_u64];
    let results =
        prop_oneof![1 => Just(Vec::new()), 1 => vec(option::weighted(0.7, result()), 1..4)];
    let then = prop_oneof![
        5 => Just(AfterFailure::RetryAsConfigured),
        1 => delay().prop_map(AfterFailure::RetryInMs),
        1 => Just(AfterFailure::Bury),
    ];
    let extension = option::of(prop_oneof![1..5000_u64, 100_000..2_000_000_u64]);
    let pause = prop_oneof![2 => Just(0_u64), 1 => delay()];
    prop_oneof![
        6 => (0..QUEUES, 0..5_u16, option::weighted(0.3, 1..5_u64), lease)
            .prop_map(|(queue, count, max_running, lease)| NativeStep::Reserve {
                queue, count, max_running, lease
            }),
        3 => (deliveries.clone(), weighted(0.8), retain, results)
            .prop_map(|(deliveries, by_attempt, retain_ms, results)| NativeStep::Ack {
                deliveries, by_attempt, retain_ms, results
            }),
        4 => (deliveries.clone(), then).prop_map(|(deliveries, then)| NativeStep::Fail { deliveries, then }),
        2 => (deliveries.clone(), extension)
            .prop_map(|(deliveries, lease_ms)| NativeStep::Touch { deliveries, lease_ms }),
        2 => (deliveries, pause).prop_map(|(deliveries, delay_ms)| NativeStep::Release { deliveries, delay_ms }),
    ]
}

/// The verbs of producers and operators.
fn manages() -> impl Strategy<Value = NativeStep> {
    let queue = 0..QUEUES;
    let if_running = select(vec![
        IfRunning::Refuse,
        IfRunning::Ask,
        IfRunning::Ask,
        IfRunning::Revoke,
    ]);
    let due = prop_oneof![
        1 => Just(None),
        3 => delay().prop_map(|ms| Some(DueTime::After(DurationMs::saturating(ms)))),
        1 => (0..9000_u64).prop_map(|ms| Some(DueTime::At(Timestamp::saturating(START + ms)))),
    ];
    let within = option::weighted(0.3, prop_oneof![Just(0_u64), 1..5000_u64]);
    let priority = option::weighted(0.4, priority());
    let change = (due, within, priority).prop_map(|(due, within_ms, priority)| JobChange {
        priority: priority.map(Priority::saturating),
        start_within: match within_ms {
            None => FieldChange::Keep,
            Some(0) => FieldChange::Reset,
            Some(ms) => FieldChange::Set(DurationMs::saturating(ms)),
        },
        ..due.map(JobChange::from).unwrap_or_default()
    });
    let ttl = prop_oneof![2 => Just(0_u64), 1 => 1..5000_u64];
    prop_oneof![
        4 => (queue.clone(), name(), if_running)
            .prop_map(|(queue, job, if_running)| NativeStep::Cancel { queue, job, if_running }),
        3 => (queue.clone(), name(), change).prop_map(|(queue, job, change)| NativeStep::Change { queue, job, change }),
        3 => (queue.clone(), name()).prop_map(|(queue, job)| NativeStep::Promote { queue, job }),
        1 => (queue.clone(), name()).prop_map(|(queue, job)| NativeStep::Peek { queue, job }),
        4 => (queue.clone(), name()).prop_map(|(queue, job)| NativeStep::Result { queue, job }),
        1 => (queue.clone(), any::<bool>()).prop_map(|(queue, dead)| NativeStep::PeekOldest { queue, dead }),
        2 => (queue.clone(), 1..4_u64, ttl)
            .prop_map(|(queue, limit, ttl_ms)| NativeStep::Respawn { queue, limit, ttl_ms }),
        1 => queue.clone().prop_map(|queue| NativeStep::PurgeReady { queue }),
        1 => (queue, 1..4_u64).prop_map(|(queue, limit)| NativeStep::PurgeDead { queue, limit }),
    ]
}

fn step() -> impl Strategy<Value = NativeStep> {
    prop_oneof![
        6 => publishes(),
        9 => consumes(),
        7 => manages(),
        1 => wait().prop_map(|ms| NativeStep::Wait { ms }),
        5 => wait().prop_map(|after_ms| NativeStep::MoveDue { after_ms }),
        1 => Just(NativeStep::Sweep),
        3 => (0..3_usize).prop_map(|skipped| NativeStep::Freeze { skipped }),
        1 => Just(NativeStep::Thaw),
    ]
}

/// The steps of a sequence.
pub(in super::super) fn steps() -> impl Strategy<Value = Vec<NativeStep>> {
    let one = step().prop_map(|step| vec![step]);
    let parts = prop_oneof![20 => one.boxed(), 1 => steps_of_one_job().boxed()];
    vec(parts, 1..80).prop_map(|parts| parts.concat())
}
