//! Assigns buckets to instances evenly (within one), with rendezvous hashing.
//!
//! All instances that know the same roster compute the same assignment, without communication. Each pair of a bucket
//! and an instance has a weight. Pairs are assigned in the order of decreasing weight, until each bucket has an
//! instance; an instance that has its even share is skipped. So the shares differ by one bucket at most, and when an
//! instance joins or leaves, few buckets move unnecessarily (`docs/decisions/0002-bucket-leaders.md`).

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The buckets that `instance` leads if `instances` are live. All buckets of the deployment are assigned; the caller
/// selects the buckets of the server whose roster this is. So a bucket that moves to a server with the same roster
/// keeps its leader.
pub(crate) fn share(instance: &str, instances: &[String], buckets: u32) -> BTreeSet<u16> {
    let Some(place) = instances.iter().position(|other| other == instance) else {
        return BTreeSet::new();
    };
    let leaders = leaders(instances, buckets);
    let ours = leaders
        .iter()
        .zip(0..=u16::MAX)
        .filter(|(leader, _)| **leader == Some(place));
    ours.map(|(_, bucket)| bucket).collect()
}

/// The leader of each bucket, as an index into `instances`.
fn leaders(instances: &[String], buckets: u32) -> Vec<Option<usize>> {
    let count = buckets as usize;
    let (even, mut larger_left) = (count / instances.len(), count % instances.len());
    let mut leaders = vec![None; count];
    let mut sizes = vec![0; instances.len()];
    for (place, bucket) in by_weight(instances, buckets) {
        let has_room = sizes[place] < even || (sizes[place] == even && larger_left > 0);
        if leaders[bucket].is_none() && has_room {
            larger_left -= usize::from(sizes[place] == even);
            sizes[place] += 1;
            leaders[bucket] = Some(place);
        }
    }
    leaders
}

/// All pairs of an instance and a bucket, as indexes, in the order of decreasing weight.
fn by_weight(instances: &[String], buckets: u32) -> impl Iterator<Item = (usize, usize)> {
    let mut pairs = Vec::new();
    for bucket in 0..buckets {
        let weight = |name: &str| xxh3_64_with_seed(name.as_bytes(), u64::from(bucket));
        let names = instances.iter().enumerate();
        // Name and bucket break ties, so that the result does not depend on the order of the instances.
        pairs.extend(names.map(|(place, name)| (weight(name), name.as_str(), bucket, place)));
    }
    pairs.sort_unstable_by(|one, other| other.cmp(one));
    let places = pairs.into_iter();
    places.map(|(_, _, bucket, place)| (place, bucket as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instances(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("pump-{number}")).collect()
    }

    #[test]
    fn every_bucket_has_exactly_one_leader_and_shares_are_even() {
        for count in [1, 2, 3, 4, 5, 7, 50, 255, 256, 300] {
            let mut sizes = vec![0; count];
            for leader in leaders(&instances(count), 256) {
                sizes[leader.expect("each bucket has a leader")] += 1;
            }
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= 1, "{least} to {most} of {count}");
        }
    }

    #[test]
    fn the_maximum_number_of_buckets_has_leaders() {
        for buckets in [1, 65_536] {
            let only = instances(1);
            assert_eq!(share("pump-0", &only, buckets).len(), buckets as usize);
        }
    }

    #[test]
    fn the_result_does_not_depend_on_the_order_of_the_instances() {
        let (listed, mut turned) = (instances(5), instances(5));
        turned.reverse();
        for instance in &listed {
            assert_eq!(share(instance, &listed, 256), share(instance, &turned, 256));
        }
    }

    #[test]
    fn an_instance_that_is_not_on_the_roster_leads_nothing() {
        assert!(share("pump-9", &instances(2), 256).is_empty());
        assert!(share("pump-0", &[], 256).is_empty());
    }

    /// The share of the instance that joins or leaves must move: for example, 51 buckets with 4 and 5 instances.
    #[test]
    fn few_buckets_move_unnecessarily_when_an_instance_joins_or_leaves() {
        for (before, after) in [(4, 5), (5, 4), (3, 4), (9, 10)] {
            let must_move = 256 / before.max(after);
            let led = |count| leaders(&instances(count), 256);
            let moved = led(before)
                .iter()
                .zip(&led(after))
                .filter(|(one, other)| one != other)
                .count();
            assert!(
                moved < must_move + 25,
                "{moved} of {must_move}, {before} to {after}"
            );
        }
    }

    /// The assignment of a server's buckets depends only on the roster of the server.
    #[test]
    fn for_any_roster_exactly_one_member_leads_each_bucket() {
        let all = instances(6);
        for set in 1..1_u32 << all.len() {
            let names = all.iter().enumerate();
            let names = names.filter(|(place, _)| set & (1 << place) != 0);
            let roster: Vec<String> = names.map(|(_, name)| name.clone()).collect();
            let mut led = BTreeSet::new();
            for name in &all {
                let share = share(name, &roster, 256);
                assert!(
                    roster.contains(name) || share.is_empty(),
                    "{name}: {roster:?}"
                );
                assert!(led.is_disjoint(&share), "{name}: {roster:?}");
                led.extend(share);
            }
            assert_eq!(led.len(), 256, "{roster:?}");
        }
    }
}
