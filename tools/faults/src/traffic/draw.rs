//! Draws the jobs of a producer.

use rand::RngExt;
use rand::rngs::StdRng;

use super::payload::ATTRIBUTES_MAX;
use super::shared::ClientState;
use crate::history::JobParameters;

const S: u64 = 1_000_000;
const DELAY_MAX_S: u64 = 8;
const BULK_MAX: usize = 12;
/// Sizes at which the storage or transport of a payload changes: the encoding of its length, compression, the inline
/// limit, the size of a chunk, separate calls, and the connection for large payloads.
const EDGES: [usize; 6] = [251, 1024, 4096, 8160, 16_384, 65_536];
const EDGE_WIDTH: usize = 40;

/// Draws one job, or several for one bulk request. Jobs of a bulk have the same delay, time to live and tries, text
/// bodies, and no attributes.
pub(super) fn jobs(random: &mut StdRng, shared: &ClientState) -> Vec<JobParameters> {
    let count = match random.random_bool(0.1) {
        true => random.random_range(2..=BULK_MAX),
        false => 1,
    };
    let first = job(random, shared);
    if count == 1 {
        return vec![first];
    }
    let numbers = (0..count).map(|_| JobParameters {
        number: shared.next_number(),
        bytes: bytes(random),
        is_binary: false,
        attributes: 0,
        ..first
    });
    numbers.collect()
}

/// Draws one job.
pub(super) fn job(random: &mut StdRng, shared: &ClientState) -> JobParameters {
    let delay_s = match random.random_bool(0.3) {
        true => 0,
        false => random.random_range(0..=DELAY_MAX_S),
    };
    let ttl_s = match random.random_bool(0.1) {
        true => delay_s + random.random_range(2..12),
        false => 0,
    };
    JobParameters {
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
    }
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
