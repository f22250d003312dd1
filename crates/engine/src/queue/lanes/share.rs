//! How the lanes of a queue share its limits.

use tidegate_core::share_of;

/// The number of jobs of a lane that may be leased, if `max_running` may in its queue, whose first `open` lanes take
/// new jobs. At least one, also in the lanes behind these: jobs of a lane without any would never be delivered.
pub(crate) fn running_share_of(lane: u16, open: u16, max_running: u64) -> u64 {
    match lane < open {
        true => share_of(lane, open, max_running).max(1),
        false => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_the_lanes_are_even_and_add_up_to_the_limit() {
        for (lanes, limit) in [(1, 7), (2, 7), (3, 7), (8, 7), (64, 1_000_003)] {
            let all = |share: fn(u16, u16, u64) -> u64| {
                let shares = (0..lanes).map(move |lane| share(lane, lanes, limit));
                shares.collect::<Vec<u64>>()
            };
            let shares = all(share_of);
            assert_eq!(shares.iter().sum::<u64>(), limit);
            assert!(shares[0] - shares[shares.len() - 1] <= 1, "{shares:?}");
            let running = all(running_share_of);
            assert_eq!(running.iter().sum::<u64>(), limit.max(lanes.into()));
            // Lanes that take no new jobs leave their shares to the others.
            assert_eq!(running_share_of(0, 1, limit), limit);
            assert_eq!(running_share_of(lanes, lanes, limit), 1);
        }
    }
}
