//! Placement: the bucket of a lane, and the hash slot of a bucket. Part of the stored layout: a change needs a new
//! layout version.
//!
//! ```text
//!  hash slots of a cluster  0 ├──────┼──────┼──────┼──────┤ 16384     here with 4 buckets
//!  buckets                        0      1      2      3              each in the middle of its stripe
//!  lanes of a queue                      0             1              the first two, of a queue of bucket 1
//! ```
//!
//! Nodes of a cluster have ranges of hash slots. Buckets in equal stripes, and lanes at equal distances, are therefore
//! spread evenly over any number of nodes.

use xxhash_rust::xxh3::xxh3_64;

use crate::QueueKey;
use crate::hash_slot::HASH_SLOTS;
use crate::limits::LANES_MAX;

/// Maximum number of buckets of a deployment: a job id has 16 bits for the bucket.
pub const BUCKETS_MAX: u32 = 1 << 16;

/// Maximum number of lanes of a queue in a deployment with this number of buckets: no two lanes share a bucket.
pub fn lanes_max(buckets: u32) -> u16 {
    let power_of_two = 1 << buckets.max(1).ilog2();
    u16::try_from(power_of_two).map_or(LANES_MAX, |lanes| lanes.min(LANES_MAX))
}

/// The bucket of a lane of a queue. Lane 0 has the bucket XXH3 (64 bits, seed 0) of `namespace/queue`,
/// modulo the number of buckets. The others follow at the fractions 1/2, 1/4, 3/4, 1/8, 5/8 … of all
/// buckets: each in the middle of the largest gap, so that a new lane moves no other lane.
///
/// # Panics
/// When `buckets` is 0.
pub fn bucket_of(queue: &QueueKey, lane: u16, buckets: u32) -> u16 {
    bucket_from(first_bucket_of(queue, buckets), lane, buckets)
}

/// The lane of a queue, among its first `lanes`, that is in this bucket, if any.
///
/// # Panics
/// When `buckets` is 0.
pub fn lane_in(bucket: u16, queue: &QueueKey, lanes: u16, buckets: u32) -> Option<u16> {
    let first = first_bucket_of(queue, buckets);
    (0..lanes).find(|lane| bucket_from(first, *lane, buckets) == bucket)
}

/// The bucket of a name: the bucket of the first lane of a queue with this name.
///
/// # Panics
/// When `buckets` is 0.
pub fn bucket_of_name(name: &str, buckets: u32) -> u16 {
    bucket_from(hash_of(name, buckets), 0, buckets)
}

fn first_bucket_of(queue: &QueueKey, buckets: u32) -> u64 {
    hash_of(&queue.to_string(), buckets)
}

fn hash_of(name: &str, buckets: u32) -> u64 {
    xxh3_64(name.as_bytes()) % u64::from(buckets)
}

fn bucket_from(first: u64, lane: u16, buckets: u32) -> u16 {
    // The bits of the lane in reverse order are its fraction, in parts of 65536.
    let fraction = u64::from(lane.reverse_bits());
    let distance = (fraction * u64::from(buckets)) >> u16::BITS;
    u16::try_from((first + distance) % u64::from(buckets)).unwrap_or(u16::MAX)
}

/// The bucket in whose slot the roster of a server is stored: among the buckets of the server, it has the number with
/// the lowest hash. It rarely changes while slots move one by one from the first to the last, as `redis-cli` moves
/// them.
pub fn roster_bucket(buckets: impl IntoIterator<Item = u16>) -> Option<u16> {
    let buckets = buckets.into_iter();
    buckets.min_by_key(|bucket| (xxh3_64(&bucket.to_le_bytes()), *bucket))
}

/// The hash slot of a bucket: the middle of its stripe. If there are more buckets than hash slots, buckets share
/// slots.
pub(crate) fn hash_slot_of(bucket: u16, buckets: u32) -> u16 {
    let middle = (2 * u64::from(bucket) + 1) * u64::from(HASH_SLOTS) / (2 * u64::from(buckets));
    u16::try_from(middle).unwrap_or(HASH_SLOTS - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn queue(number: u32) -> QueueKey {
        QueueKey::try_from(format!("shop/queue-{number}").as_str()).unwrap()
    }

    /// How many of these hash slots each node has, if `nodes` nodes share all slots as `redis-cli --cluster create`
    /// assigns them.
    fn per_node(slots: impl IntoIterator<Item = u16>, nodes: usize) -> Vec<usize> {
        let per_node = f64::from(HASH_SLOTS) / nodes as f64;
        let ends: Vec<f64> = (1..=nodes)
            .map(|node| (node as f64 * per_node).round())
            .collect();
        let mut counts = vec![0; nodes];
        for slot in slots {
            counts[ends.partition_point(|end| *end <= f64::from(slot))] += 1;
        }
        counts
    }

    #[test]
    fn placement_never_changes_within_a_layout_version() {
        let queue = QueueKey::try_from("shop/close-unpaid").unwrap();
        let buckets: Vec<u16> = (0..8).map(|lane| bucket_of(&queue, lane, 256)).collect();
        assert_eq!(buckets, [91, 219, 155, 27, 123, 251, 187, 59]);
        assert_eq!(bucket_of(&queue, 0, 1), 0);
        assert_eq!(
            [0, 1, 255].map(|bucket| hash_slot_of(bucket, 256)),
            [32, 96, 16352]
        );
    }

    #[test]
    fn the_roster_of_a_server_seldom_moves_while_slots_arrive_or_leave_one_by_one() {
        assert_eq!(roster_bucket([]), None);
        assert_eq!(roster_bucket([7, 3, 200]), roster_bucket([200, 7, 3]));
        let arrive: BTreeSet<_> = (1..=85).map(|end| roster_bucket(0..end)).collect();
        let leave: BTreeSet<_> = (0..85).map(|begin| roster_bucket(begin..85)).collect();
        assert!(
            arrive.len() < 12 && leave.len() < 12,
            "{arrive:?} {leave:?}"
        );
    }

    #[test]
    fn queues_spread_over_the_buckets() {
        let used: BTreeSet<u16> = (0..2000)
            .map(|number| bucket_of(&queue(number), 0, 256))
            .collect();
        assert_eq!(used.len(), 256);
    }

    #[test]
    fn no_two_lanes_of_a_queue_share_a_bucket() {
        for buckets in [1, 2, 3, 6, 7, 64, 100, 255, 256, 1000, 16384, BUCKETS_MAX] {
            for number in 0..20 {
                let lanes = lanes_max(buckets);
                let used: BTreeSet<u16> = (0..lanes)
                    .map(|lane| bucket_of(&queue(number), lane, buckets))
                    .collect();
                assert_eq!(used.len(), usize::from(lanes), "{buckets} buckets");
                for lane in 0..lanes {
                    let bucket = bucket_of(&queue(number), lane, buckets);
                    let found = |lanes| lane_in(bucket, &queue(number), lanes, buckets);
                    assert_eq!(found(lanes), Some(lane));
                    assert_eq!(found(lane), None);
                }
            }
        }
        assert_eq!([1, 7, 64, 1000].map(lanes_max), [1, 4, 64, 64]);
    }

    #[test]
    fn buckets_spread_evenly_over_any_number_of_nodes() {
        for buckets in [64, 256, 1000, 16384, BUCKETS_MAX] {
            for nodes in 1..=24_usize {
                let all = (0..buckets).map(|bucket| hash_slot_of(bucket as u16, buckets));
                let counts = per_node(all, nodes);
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                // A stripe at the border of two nodes belongs to one of them; with more buckets than slots
                // several buckets share a stripe.
                let thick = (buckets as usize).div_ceil(usize::from(HASH_SLOTS));
                assert!(
                    most - least <= 2 * thick,
                    "{buckets} on {nodes}: {counts:?}"
                );
            }
        }
    }

    #[test]
    fn lanes_spread_evenly_over_any_number_of_nodes() {
        for lanes in 1..=LANES_MAX {
            for nodes in 1..=24_usize {
                for number in 0..50 {
                    let slots = (0..lanes)
                        .map(|lane| hash_slot_of(bucket_of(&queue(number), lane, 256), 256));
                    let counts = per_node(slots, nodes);
                    // As even as possible for 1, 2, 4, 8 … lanes, otherwise as for the next of these.
                    let most = usize::from(lanes.next_power_of_two()).div_ceil(nodes);
                    let said = format!("{lanes} lanes on {nodes} nodes: {counts:?}");
                    assert!(counts.iter().all(|count| *count <= most), "{said}");
                }
            }
        }
    }
}
