//! Hashes of the keys of jobs, by which they are found.

use xxhash_rust::xxh3::xxh3_128;

use crate::extension::KEY_HASH_BYTES;
use crate::name::QueueKey;

/// Number of hashes in the index of keys of a bucket.
const KEY_SHARDS: u8 = 128;

/// A hash of a text that a client has chosen for a job of a queue: 12 bytes of XXH3-128. Part of the stored layout.
///
/// Two keys of a queue share their hash with a probability of 2⁻⁹⁶: a queue with a billion keys has such a pair with a
/// probability of 10⁻¹¹.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; KEY_HASH_BYTES]);

impl KeyHash {
    /// The hash of a job's key, which is unique in its queue.
    pub fn of_job(queue: &QueueKey, key: &str) -> Self {
        Self::of(b'k', queue, key)
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
    fn hashes_are_those_of_stored_jobs() {
        let queue = QueueKey::try_from("shop/close-unpaid").unwrap();
        let hash = KeyHash::of_job(&queue, "order-17");
        assert_eq!(hash.nonce().to_be_bytes(), hash.0[..2]);
        assert_eq!(hash, KeyHash::of_job(&queue, "order-17"));
    }
}
