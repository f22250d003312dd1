//! Which instance should lead which bucket: rendezvous hashing with even shares.
//!
//! Everybody who knows the same instances comes to the same answer without talking. Each pair of a bucket and an instance
//! has a weight. The heaviest pair is matched first, and so on, until each bucket has its instance; an instance that has
//! its even share is passed over. So no instance has more than one bucket more than another, and when one comes or goes
//! few buckets move that need not (`docs/decisions/0020-even-shares.md`).

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The buckets that `instance` should lead while `instances` are alive. One that cannot reach the server of a bucket is passed
/// over there, unless that is so for all.
pub(crate) fn share(
    instance: &str,
    instances: &[String],
    buckets: u32,
    can_reach: impl Fn(&str, u16) -> bool,
) -> BTreeSet<u16> {
    let Some(place) = instances.iter().position(|other| other == instance) else {
        return BTreeSet::new();
    };
    let leaders = leaders(instances, buckets, can_reach);
    let ours = leaders
        .iter()
        .zip(0..=u16::MAX)
        .filter(|(leader, _)| **leader == Some(place));
    ours.map(|(_, bucket)| bucket).collect()
}

/// For each bucket, the place of its leader among the instances.
fn leaders(
    instances: &[String],
    buckets: u32,
    can_reach: impl Fn(&str, u16) -> bool,
) -> Vec<Option<usize>> {
    let count = buckets as usize;
    let (even, mut larger_left) = (count / instances.len(), count % instances.len());
    let mut leaders = vec![None; count];
    let mut sizes = vec![0; instances.len()];
    let may_lead = |place: usize, bucket: usize| {
        let reaches = |name: &String| u16::try_from(bucket).is_ok_and(|it| can_reach(name, it));
        reaches(&instances[place]) || !instances.iter().any(reaches)
    };
    let pairs: Vec<(usize, usize)> = by_weight(instances, buckets)
        .filter(|(place, bucket)| may_lead(*place, *bucket))
        .collect();
    for &(place, bucket) in &pairs {
        let has_room = sizes[place] < even || (sizes[place] == even && larger_left > 0);
        if leaders[bucket].is_none() && has_room {
            larger_left -= usize::from(sizes[place] == even);
            sizes[place] += 1;
            leaders[bucket] = Some(place);
        }
    }
    // Where those who reach a server have their even shares already, they take more.
    for (place, bucket) in pairs {
        leaders[bucket].get_or_insert(place);
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

    fn everywhere(_: &str, _: u16) -> bool {
        true
    }

    fn instances(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("pump-{number}")).collect()
    }

    #[test]
    fn every_bucket_has_exactly_one_leader_and_shares_are_even() {
        for count in [1, 2, 3, 4, 5, 7, 50, 255, 256, 300] {
            let mut sizes = vec![0; count];
            for leader in leaders(&instances(count), 256, everywhere) {
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
            assert_eq!(
                share("pump-0", &only, buckets, everywhere).len(),
                buckets as usize
            );
        }
    }

    #[test]
    fn the_order_of_the_instances_means_nothing() {
        let (listed, mut turned) = (instances(5), instances(5));
        turned.reverse();
        for instance in &listed {
            assert_eq!(
                share(instance, &listed, 256, everywhere),
                share(instance, &turned, 256, everywhere)
            );
        }
    }

    #[test]
    fn whoever_is_not_on_the_list_leads_nothing() {
        assert!(share("pump-9", &instances(2), 256, everywhere).is_empty());
        assert!(share("pump-0", &[], 256, everywhere).is_empty());
    }

    /// What must move is the share of the one that comes or goes: 64 or 51 buckets here.
    #[test]
    fn when_one_comes_or_goes_few_buckets_move_that_need_not() {
        for (before, after) in [(4, 5), (5, 4), (3, 4), (9, 10)] {
            let must_move = 256 / before.max(after);
            let led = |count| leaders(&instances(count), 256, everywhere);
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

    #[test]
    fn whoever_cannot_reach_a_server_is_passed_over_there() {
        // Buckets below 100 are on a server that pump-0 cannot reach.
        let reaches = |name: &str, bucket| name != "pump-0" || bucket >= 100;
        let leaders = leaders(&instances(3), 256, reaches);
        assert!(leaders.iter().all(Option::is_some));
        assert!(leaders[..100].iter().all(|leader| *leader != Some(0)));
        // The others have their even shares there already, in part, so it has less than that.
        let led = share("pump-0", &instances(3), 256, reaches).len();
        assert!((50..=86).contains(&led), "{led}");
        // Where nobody can, shares are as always.
        let nobody = |_: &str, bucket| bucket >= 100;
        let as_always = share("pump-0", &instances(3), 256, everywhere);
        assert_eq!(share("pump-0", &instances(3), 256, nobody), as_always);
        // One alone that reaches most of it leads most.
        let alone = |name: &str, bucket| name == "pump-0" || bucket >= 250;
        assert!(share("pump-0", &instances(3), 256, alone).len() >= 250);
    }
}
