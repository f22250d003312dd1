//! Hashes of the keys of jobs, by which they are found.

use xxhash_rust::xxh3::xxh3_128;

use crate::extension::KEY_HASH_BYTES;
use crate::jump_hash::LaneHash;
use crate::name::QueueKey;

/// Number of hashes in the index of keys of a bucket.
const KEY_SHARDS: u8 = 128;

/// The keys of schedules begin with this text. Their jobs are published in the step that sets the next tick,
/// in the first lane, so these keys are always there.
pub const SCHEDULE_KEY_PREFIX: &str = "schedule:";

/// How many bytes of a hash place a key in a lane: the last ones, so that lanes and shards do not depend on each other.
const PLACING_BYTES: usize = 4;

/// A hash of a text that a client has chosen for a job of a queue: 12 bytes of XXH3-128. Part of the stored layout.
///
/// Two keys of a queue share their hash with a probability of 2⁻⁹⁶: a queue with a billion keys has such a pair with a
/// probability of 10⁻¹¹.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; KEY_HASH_BYTES]);

impl KeyHash {
    /// The hash of a job's key, which is unique in its queue.
    pub fn of_job(queue: &QueueKey, key: &str) -> Self {
        let mut hash = Self::of(b'k', queue, key);
        if key.starts_with(SCHEDULE_KEY_PREFIX) {
            hash.0[KEY_HASH_BYTES - PLACING_BYTES..].fill(0);
        }
        hash
    }

    /// The hash of an idempotency key, which stands for one request to publish to a queue.
    pub fn of_request(queue: &QueueKey, key: &str) -> Self {
        Self::of(b'i', queue, key)
    }

    /// The part of a job's id that is taken from its key instead of chosen at random, so that the seals of all versions
    /// of a job are made with the same nonce.
    pub const fn nonce(&self) -> u16 {
        u16::from_be_bytes([self.0[0], self.0[1]])
    }

    /// The number of the hash that has the entry of this key in the index of keys.
    pub const fn shard(&self) -> u8 {
        self.0[0] % KEY_SHARDS
    }

    /// Places the jobs with this key in a lane.
    pub fn lane_hash(&self) -> LaneHash {
        LaneHash::of(&self.0[KEY_HASH_BYTES - PLACING_BYTES..])
    }

    /// The lane of this key in a queue with so many lanes.
    pub fn lane(&self, lanes: u16) -> u16 {
        self.lane_hash().lane(lanes)
    }

    fn of(kind: u8, queue: &QueueKey, text: &str) -> Self {
        // Names have no NUL and no '/', so that no two queues and texts make the same bytes.
        let bytes = [
            &[kind],
            queue.to_string().as_bytes(),
            b"\0",
            text.as_bytes(),
        ]
        .concat();
        let hash = xxh3_128(&bytes).to_be_bytes();
        let mut short = [0; KEY_HASH_BYTES];
        short.copy_from_slice(&hash[..KEY_HASH_BYTES]);
        Self(short)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_hash_depends_on_kind_queue_and_text() {
        let queues = ["shop/a", "shop/ab", "shopa/b"].map(|name| QueueKey::try_from(name).unwrap());
        let mut hashes = BTreeSet::new();
        for queue in &queues {
            for text in ["", "b", "order-17", "order-17\0"] {
                hashes.insert(KeyHash::of_job(queue, text).0);
                hashes.insert(KeyHash::of_request(queue, text).0);
            }
        }
        assert_eq!(hashes.len(), 24);
    }

    #[test]
    fn keys_are_spread_over_lanes_and_few_change_theirs() {
        let queue = QueueKey::try_from("shop/orders").unwrap();
        let keys = (0..80_000).map(|number| KeyHash::of_job(&queue, &format!("order-{number}")));
        let keys: Vec<KeyHash> = keys.collect();
        for lanes in [1, 2, 3, 8, 64] {
            let mut counts = vec![0_usize; lanes];
            for key in &keys {
                counts[usize::from(key.lane(lanes as u16))] += 1;
            }
            let even = keys.len() / lanes;
            let is_near = |count: &usize| count.abs_diff(even) * 10 <= even;
            assert!(counts.iter().all(is_near), "{counts:?}");
        }
        for (fewer, more) in [(1, 2), (2, 3), (3, 8), (8, 64)] {
            for key in &keys {
                let (before, after) = (key.lane(fewer), key.lane(more));
                assert!(before == after || after >= fewer);
            }
        }
    }

    #[test]
    fn keys_of_schedules_are_in_the_first_lane() {
        let queue = QueueKey::try_from("shop/orders").unwrap();
        let hashes = ["daily", "hourly"].map(|name| {
            let key = KeyHash::of_job(&queue, &format!("{SCHEDULE_KEY_PREFIX}{name}"));
            assert!((1..=64).all(|lanes| key.lane(lanes) == 0));
            key
        });
        assert_ne!(hashes[0], hashes[1]);
    }

    #[test]
    fn hashes_are_those_of_stored_jobs() {
        let queue = QueueKey::try_from("shop/close-unpaid").unwrap();
        let hash = KeyHash::of_job(&queue, "order-17");
        assert_eq!(hash.nonce().to_be_bytes(), hash.0[..2]);
        assert_eq!(hash, KeyHash::of_job(&queue, "order-17"));
    }
}
