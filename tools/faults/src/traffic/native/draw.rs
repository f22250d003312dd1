//! Draws what native producers publish.

use rand::RngExt;
use rand::rngs::StdRng;
use tidegate_core::IfExists;

use crate::history::{RetryTimes, VersionSpec, now};
use crate::traffic::draw;
use crate::traffic::shared::ClientState;
use crate::wire::job_lease;

const MS: u64 = 1000;
/// Few, so that often another job has the key.
const KEYS: u32 = 8;
const GROUPS: u8 = 6;
/// The longest payload of a job that waits for others, so that these are many.
const HELD_BYTES_MAX: usize = 4096;
const PRIORITY_MAX: u8 = 4;
const DELAY_MAX_MS: u64 = 4000;
const RETAIN_MS: std::ops::Range<u64> = 300..3000;
/// The part of single publishes that wait.
const WAITING: f64 = 0.08;
const WAIT_MS: std::ops::Range<u64> = 200..3000;
const RETRY_MS: std::ops::Range<u64> = 50..1200;
/// One version in so many is not settled, so that it dies of lost workers.
const DOOMED: u64 = 29;

/// Whether no worker settles the version with this number while faults are injected.
pub(super) const fn is_doomed(number: u64) -> bool {
    number % DOOMED == 7
}

/// Draws how long a publisher waits for the end of its job, in µs. Most do not wait.
pub(super) fn wait(random: &mut StdRng) -> u64 {
    match random.random_bool(WAITING) {
        true => random.random_range(WAIT_MS) * MS,
        false => 0,
    }
}

/// Draws a version. It has its own lease, and no idempotency key.
pub(super) fn version(random: &mut StdRng, shared: &ClientState) -> VersionSpec {
    let drawn = draw::version(random, shared);
    let delay = match random.random_bool(0.35) {
        true => 0,
        false => random.random_range(0..DELAY_MAX_MS) * MS,
    };
    let has_run_at = delay > 0 && random.random_bool(0.3);
    let key = random
        .random_bool(0.5)
        .then(|| random.random_range(0..KEYS));
    let retry = random.random_bool(0.7).then(|| RetryTimes {
        delays: (0..random.random_range(1..=3))
            .map(|_| random.random_range(RETRY_MS) * MS)
            .collect(),
        jitter: random.random_range(0..3) * 100,
    });
    VersionSpec {
        delay: if has_run_at { 0 } else { delay },
        ttl: 0,
        tries: match random.random_bool(0.7) {
            true => random.random_range(1..=3),
            false => 0,
        },
        run_at: has_run_at.then(|| (now() + delay) / MS * MS),
        key,
        if_exists: match random.random_range(0..100) {
            0..45 => IfExists::Replace,
            45..80 => IfExists::Keep,
            _ => IfExists::Reject,
        },
        priority: match random.random_bool(0.4) {
            true => random.random_range(1..=4),
            false => 0,
        },
        group: random
            .random_bool(0.5)
            .then(|| random.random_range(0..GROUPS)),
        lease: job_lease(drawn.number),
        retry,
        retain: match key.is_some() && random.random_bool(0.4) {
            true => random.random_range(RETAIN_MS) * MS,
            false => 0,
        },
        ..drawn
    }
}

/// Draws a version without a key for a queue in which groups and priorities wait for each other.
pub(super) fn version_of_group(random: &mut StdRng, shared: &ClientState) -> VersionSpec {
    let drawn = version(random, shared);
    VersionSpec {
        key: None,
        retain: 0,
        priority: random.random_range(0..=PRIORITY_MAX),
        group: random
            .random_bool(0.9)
            .then(|| random.random_range(0..GROUPS)),
        bytes: drawn.bytes.min(HELD_BYTES_MAX),
        ..drawn
    }
}

/// The same, without a delay.
pub(super) fn ready_version_of_group(random: &mut StdRng, shared: &ClientState) -> VersionSpec {
    VersionSpec {
        delay: 0,
        run_at: None,
        ..version_of_group(random, shared)
    }
}

/// The same, of one of the highest priorities.
pub(super) fn urgent_version_of_group(random: &mut StdRng, shared: &ClientState) -> VersionSpec {
    VersionSpec {
        priority: PRIORITY_MAX - random.random_range(0..2),
        ..ready_version_of_group(random, shared)
    }
}
