//! Which bucket a queue lives in. Part of the stored layout: a change needs a new layout version.

use xxhash_rust::xxh3::xxh3_64;

use crate::QueueKey;

/// The most buckets a deployment can have: a job id gives the bucket 16 bits.
pub const BUCKETS_MAX: u32 = 1 << 16;

/// The bucket of a lane of a queue: XXH3 (64 bits, seed 0) of `namespace/queue/lane`, modulo the
/// number of buckets.
///
/// # Panics
/// When `buckets` is 0.
#[must_use]
pub fn bucket_of(queue: &QueueKey, lane: u16, buckets: u32) -> u16 {
    let hash = xxh3_64(format!("{queue}/{lane}").as_bytes());
    u16::try_from(hash % u64::from(buckets)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_never_changes_within_a_layout_version() {
        let queue = QueueKey::try_from("shop/close-unpaid").unwrap();
        assert_eq!(bucket_of(&queue, 0, 256), 150);
        assert_eq!(bucket_of(&queue, 1, 256), 185);
        assert_eq!(bucket_of(&queue, 0, 1), 0);
    }

    #[test]
    fn queues_spread_over_the_buckets() {
        let mut used = std::collections::BTreeSet::new();
        for number in 0..2000 {
            let queue = QueueKey::try_from(format!("shop/queue-{number}").as_str()).unwrap();
            used.insert(bucket_of(&queue, 0, 256));
        }
        assert_eq!(used.len(), 256);
    }
}
