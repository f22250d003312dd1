//! Which instance should lead which bucket: rendezvous hashing with even shares.
//!
//! Everybody who knows the same instances comes to the same answer without talking. Each pair of a bucket and an instance
//! has a weight. The heaviest pair is matched first, and so on, until each bucket has its instance; an instance that has
//! its even share is passed over. So no instance has more than one bucket more than another, and when one comes or goes
//! few buckets move that need not (`docs/decisions/0020-even-shares.md`).

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The buckets that `instance` should lead while `instances` are alive: of all buckets, from which a caller takes those of the
/// server on whose roster they are. So a bucket that moves between servers with the same pumps keeps its leader.
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

/// For each bucket, the place of its leader among the instances.
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

/// All pairs of an instance and a bucket, by their places, the heaviest first.
fn by_weight(instances: &[String], buckets: u32) -> impl Iterator<Item = (usize, usize)> {
    let mut pairs = Vec::new();
    for bucket in 0..buckets {
        let weight = |name: &str| xxh3_64_with_seed(name.as_bytes(), u64::from(bucket));
        let names = instances.iter().enumerate();
        // Names and buckets decide between equal weights, so that all agree whatever the order of the instances.
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
    fn as_many_buckets_as_there_may_be_have_leaders() {
        for buckets in [1, 65_536] {
            let only = instances(1);
            assert_eq!(share("pump-0", &only, buckets).len(), buckets as usize);
        }
    }

    #[test]
    fn the_order_of_the_instances_means_nothing() {
        let (listed, mut turned) = (instances(5), instances(5));
        turned.reverse();
        for instance in &listed {
            assert_eq!(share(instance, &listed, 256), share(instance, &turned, 256));
        }
    }

    #[test]
    fn whoever_is_not_on_the_list_leads_nothing() {
        assert!(share("pump-9", &instances(2), 256).is_empty());
        assert!(share("pump-0", &[], 256).is_empty());
    }

    /// What must move is the share of the one that comes or goes: 64 or 51 buckets here.
    #[test]
    fn when_one_comes_or_goes_few_buckets_move_that_need_not() {
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

    /// Which instances are on the roster of a server decides about its buckets, and nothing else does.
    #[test]
    fn whichever_instances_reach_a_server_one_of_them_leads_each_of_its_buckets() {
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
