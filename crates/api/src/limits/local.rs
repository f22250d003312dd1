//! Units of rate limits that this process counts while Redis does not.
//!
//! Each process counts by itself, so together they let through the limit times the number of processes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_store::{LimitHolder, LimitSide};

/// So long after Redis has failed to count units of a token it is not asked to.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// From so many windows on those that are over are removed.
const WINDOWS_MIN: usize = 1024;

type Account = (LimitHolder, LimitSide);

#[derive(Debug, Default)]
pub(super) struct LocalUnits(Mutex<HashMap<Account, Window>>);

#[derive(Debug)]
struct Window {
    began_at: Instant,
    length: Duration,
    taken: u64,
    /// When Redis failed last.
    failed_at: Instant,
}

impl LocalUnits {
    /// Whether Redis failed to count units of this account a moment ago.
    pub(super) fn is_counting(&self, account: &Account) -> bool {
        let windows = self.lock();
        let window = windows.get(account);
        window.is_some_and(|window| window.failed_at.elapsed() < RETRY_INTERVAL)
    }

    /// Takes one of `units_max` units of the running window, or of a new one. Whether there was one.
    pub(super) fn take(&self, account: Account, units_max: u64, interval_seconds: u32) -> bool {
        self.take_at(account, units_max, interval_seconds, Instant::now())
    }

    fn take_at(
        &self,
        account: Account,
        units_max: u64,
        interval_seconds: u32,
        now: Instant,
    ) -> bool {
        let length = Duration::from_secs(interval_seconds.into());
        let mut windows = self.lock();
        if windows.len() >= WINDOWS_MIN {
            windows.retain(|_, window| !window.is_over(now));
        }
        let begun = || Window {
            began_at: now,
            length,
            taken: 0,
            failed_at: now,
        };
        let window = windows.entry(account).or_insert_with(begun);
        if window.is_over(now) {
            let failed_at = window.failed_at;
            *window = Window {
                failed_at,
                ..begun()
            };
        }
        if now.saturating_duration_since(window.failed_at) >= RETRY_INTERVAL {
            window.failed_at = now;
        }
        let is_there = window.taken < units_max;
        window.taken += u64::from(is_there);
        is_there
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Account, Window>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began_at) >= self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_of_a_token_has_its_units_once_a_window() {
        let units = LocalUnits::default();
        let now = Instant::now();
        let account = |side| (LimitHolder::new("p", "n", "t"), side);
        let take = |side, at| units.take_at(account(side), 2, 60, at);
        assert!(!units.is_counting(&account(LimitSide::Read)));
        let taken: Vec<bool> = (0..3).map(|_| take(LimitSide::Read, now)).collect();
        assert_eq!(taken, [true, true, false]);
        assert!(take(LimitSide::Write, now));
        assert!(units.is_counting(&account(LimitSide::Read)));
        assert!(!take(LimitSide::Read, now + Duration::from_secs(59)));
        assert!(take(LimitSide::Read, now + Duration::from_secs(60)));
    }

    #[test]
    fn windows_that_are_over_are_removed() {
        let units = LocalUnits::default();
        let now = Instant::now();
        let account = |number: usize| {
            let token = number.to_string();
            (LimitHolder::new("p", "n", &token), LimitSide::Read)
        };
        for number in 0..WINDOWS_MIN {
            assert!(units.take_at(account(number), 1, 1, now));
        }
        let later = now + Duration::from_secs(1);
        assert!(units.take_at(account(WINDOWS_MIN), 1, 1, later));
        assert_eq!(units.lock().len(), 1);
    }
}
