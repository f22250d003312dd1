//! Draws what producers of the lmstfy wire publish.

use rand::RngExt;
use rand::rngs::StdRng;

use super::shared::ClientState;
use crate::history::VersionSpec;
use crate::wire::ATTRIBUTES_MAX;

const S: u64 = 1_000_000;
const DELAY_MAX_S: u64 = 8;
const CROSSING_DELAY_MAX: u64 = 4 * S;
const BULK_MAX: usize = 12;
/// Jobs per publish of the ballast. With these about 200 jobs are delayed, about ten per chunk.
const BALLAST: usize = 16;
const BALLAST_DELAYS_S: std::ops::Range<u64> = 10..15;
/// Body sizes that are not compressed and are stored in the record.
const BALLAST_BYTES: std::ops::Range<usize> = 700..950;
/// Sizes at which the storage or transport of a payload changes: the encoding of its length, compression, the inline
/// limit, the size of a chunk, separate calls, and the connection for large payloads.
const EDGES: [usize; 6] = [251, 1024, 4096, 8160, 16_384, 65_536];
const EDGE_WIDTH: usize = 40;

/// Draws one version, or several for one bulk request. Versions of a bulk have the same delay, time to live and tries,
/// text bodies, and no attributes.
pub(super) fn versions(random: &mut StdRng, shared: &ClientState) -> Vec<VersionSpec> {
    let first = version(random, shared);
    match random.random_bool(0.1) {
        true => (0..random.random_range(2..=BULK_MAX))
            .map(|_| plain_like(&first, bytes(random), shared))
            .collect(),
        false => vec![first],
    }
}

/// Returns a version with the delay, time to live and tries of this one.
pub(super) fn plain_like(first: &VersionSpec, bytes: usize, shared: &ClientState) -> VersionSpec {
    VersionSpec {
        number: shared.next_number(),
        bytes,
        is_binary: false,
        attributes: 0,
        ..first.clone()
    }
}

/// Draws one version.
pub(super) fn version(random: &mut StdRng, shared: &ClientState) -> VersionSpec {
    let delay_s = match random.random_bool(0.3) {
        true => 0,
        false => random.random_range(0..=DELAY_MAX_S),
    };
    let ttl_s = match random.random_bool(0.1) {
        true => delay_s + random.random_range(2..12),
        false => 0,
    };
    VersionSpec {
        number: shared.next_number(),
        delay: delay_s * S,
        ttl: ttl_s * S,
        tries: random.random_range(1..=3),
        bytes: bytes(random),
        is_binary: random.random_bool(0.2),
        attributes: match random.random_range(0..40) {
            0 => ATTRIBUTES_MAX,
            1..=6 => random.random_range(1..=4),
            _ => 0,
        },
        ..VersionSpec::default()
    }
}

/// Draws a version for a queue of native clients.
pub(super) fn crossing(random: &mut StdRng, shared: &ClientState) -> VersionSpec {
    let drawn = version(random, shared);
    VersionSpec {
        ttl: 0,
        delay: drawn.delay.min(CROSSING_DELAY_MAX),
        ..drawn
    }
}

/// Draws delayed versions of nearly 1 KiB.
pub(super) fn ballast(random: &mut StdRng, shared: &ClientState) -> Vec<VersionSpec> {
    let delay = random.random_range(BALLAST_DELAYS_S) * S;
    let versions = (0..BALLAST).map(|_| VersionSpec {
        number: shared.next_number(),
        delay,
        tries: 3,
        bytes: random.random_range(BALLAST_BYTES),
        ..VersionSpec::default()
    });
    versions.collect()
}

fn bytes(random: &mut StdRng) -> usize {
    match random.random_range(0..100) {
        0 => random.random_range(120_000..400_000),
        1..=4 => random.random_range(20_000..120_000),
        5..=19 => random.random_range(1000..6000),
        20..=27 => {
            let edge = EDGES[random.random_range(0..EDGES.len())];
            random.random_range(edge - EDGE_WIDTH..edge + EDGE_WIDTH)
        }
        _ => random.random_range(40..300),
    }
}
