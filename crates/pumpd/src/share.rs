//! Which instance should lead which bucket: rendezvous hashing.
//!
//! Everybody who knows the same instances comes to the same answer without talking, each instance gets
//! about its even share, and when one leaves only its buckets move. (Thaler and Ravishankar, "A
//! Name-Based Mapping Scheme for Rendezvous", 1996.)

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The buckets that `instance` should lead while `instances` are alive.
pub(crate) fn share(instance: &str, instances: &[String], buckets: u32) -> BTreeSet<u16> {
    let all = (0..buckets).filter_map(|bucket| u16::try_from(bucket).ok());
    all.filter(|bucket| leader(*bucket, instances).is_some_and(|leader| leader == instance))
        .collect()
}

fn leader(bucket: u16, instances: &[String]) -> Option<&str> {
    let weight = |instance: &str| xxh3_64_with_seed(instance.as_bytes(), u64::from(bucket));
    let instances = instances.iter().map(String::as_str);
    // The name decides between equal weights, so that all agree.
    instances.max_by_key(|instance| (weight(instance), *instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instances(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("pump-{number}")).collect()
    }

    #[test]
    fn every_bucket_has_exactly_one_leader() {
        for count in 1..=5 {
            let instances = instances(count);
            let shares = instances
                .iter()
                .map(|instance| share(instance, &instances, 256));
            let led: Vec<u16> = shares.flatten().collect();
            assert_eq!(led.len(), 256);
            assert_eq!(led.into_iter().collect::<BTreeSet<_>>().len(), 256);
        }
    }

    #[test]
    fn shares_are_about_even() {
        for count in 2..=5 {
            let instances = instances(count);
            for instance in &instances {
                let size = share(instance, &instances, 256).len();
                let even = 256 / count;
                assert!(size > even / 2 && size < even * 2, "{size} of {even}");
            }
        }
    }

    #[test]
    fn only_the_buckets_of_the_one_that_left_move() {
        let before = instances(3);
        let after = &before[..2];
        for instance in after {
            assert!(share(instance, after, 256).is_superset(&share(instance, &before, 256)));
        }
    }
}
