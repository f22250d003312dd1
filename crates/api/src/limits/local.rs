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

/// One side of a limit.
pub(super) type Account = (LimitHolder, LimitSide);

#[derive(Debug, Default)]
pub(super) struct LocalUnits(Mutex<HashMap<Account, Window>>);

/// What counts the units of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counter {
    /// Redis.
    Redis,
    /// This process: Redis failed to a moment ago, or is being asked whether it does again.
    Local,
    /// This process, and it is time to ask Redis. Answered to one caller at a time, who then calls
    /// [`LocalUnits::failed`] or [`LocalUnits::counted_by_redis`].
    LocalWithTrial,
}

/// A unit that this process counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocalUnit {
    /// When its window began.
    window: Instant,
}

#[derive(Debug)]
struct Window {
    began_at: Instant,
    length: Duration,
    taken: u64,
    /// When Redis failed last, if it has not counted since.
    failed_at: Option<Instant>,
    /// Redis is being asked whether it counts again.
    is_on_trial: bool,
}

impl LocalUnits {
    /// What counts the units of this account now.
    pub(super) fn counter(&self, account: &Account) -> Counter {
        self.counter_at(account, Instant::now())
    }

    fn counter_at(&self, account: &Account, now: Instant) -> Counter {
        let mut windows = self.lock();
        let Some(window) = windows.get_mut(account) else {
            return Counter::Redis;
        };
        match window.failed_at {
            None => Counter::Redis,
            Some(at) if now.saturating_duration_since(at) < RETRY_INTERVAL => Counter::Local,
            Some(_) if std::mem::replace(&mut window.is_on_trial, true) => Counter::Local,
            Some(_) => Counter::LocalWithTrial,
        }
    }

    /// Redis did not count. The next units of this account are counted here.
    pub(super) fn failed(&self, account: Account, interval_seconds: u32) {
        self.failed_at(account, interval_seconds, Instant::now());
    }

    fn failed_at(&self, account: Account, interval_seconds: u32, now: Instant) {
        let mut windows = self.lock();
        if windows.len() >= WINDOWS_MIN {
            windows.retain(|_, window| window.is_on_trial || !window.is_over(now));
        }
        let begun = || Window::new(interval_seconds, now);
        let window = windows.entry(account).or_insert_with(begun);
        window.failed_at = Some(now);
        window.is_on_trial = false;
    }

    /// Redis counted a unit of this account.
    pub(super) fn counted_by_redis(&self, account: &Account) {
        if let Some(window) = self.lock().get_mut(account) {
            window.failed_at = None;
            window.is_on_trial = false;
        }
    }

    /// Takes one of `units_max` units of the running window, or of a new one, if there is one.
    pub(super) fn take(
        &self,
        account: Account,
        units_max: u64,
        interval_seconds: u32,
    ) -> Option<LocalUnit> {
        self.take_at(account, units_max, interval_seconds, Instant::now())
    }

    fn take_at(
        &self,
        account: Account,
        units_max: u64,
        interval_seconds: u32,
        now: Instant,
    ) -> Option<LocalUnit> {
        let mut windows = self.lock();
        let begun = || Window::new(interval_seconds, now);
        let window = windows.entry(account).or_insert_with(begun);
        if window.is_over(now) {
            *window = Window {
                failed_at: window.failed_at,
                is_on_trial: window.is_on_trial,
                ..begun()
            };
        }
        let is_there = window.taken < units_max;
        window.taken += u64::from(is_there);
        is_there.then_some(LocalUnit {
            window: window.began_at,
        })
    }

    /// Gives a unit back, if its window is still the running one.
    pub(super) fn give_back(&self, account: &Account, unit: LocalUnit) {
        if let Some(window) = self.lock().get_mut(account)
            && window.began_at == unit.window
        {
            window.taken = window.taken.saturating_sub(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Account, Window>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    fn new(interval_seconds: u32, now: Instant) -> Self {
        Self {
            began_at: now,
            length: Duration::from_secs(interval_seconds.into()),
            taken: 0,
            failed_at: None,
            is_on_trial: false,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began_at) >= self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(token: &str, side: LimitSide) -> Account {
        (LimitHolder::new("p", "n", token), side)
    }

    #[test]
    fn each_side_of_a_token_has_its_units_once_a_window() {
        let units = LocalUnits::default();
        let now = Instant::now();
        let take = |side, at| units.take_at(account("t", side), 2, 60, at).is_some();
        let taken: Vec<bool> = (0..3).map(|_| take(LimitSide::Read, now)).collect();
        assert_eq!(taken, [true, true, false]);
        assert!(take(LimitSide::Write, now));
        assert!(!take(LimitSide::Read, now + Duration::from_secs(59)));
        assert!(take(LimitSide::Read, now + Duration::from_secs(60)));
    }

    #[test]
    fn a_unit_goes_back_to_the_window_it_came_from_or_to_none() {
        let units = LocalUnits::default();
        let account = account("t", LimitSide::Read);
        let now = Instant::now();
        let later = now + Duration::from_secs(60);
        let take = |at| units.take_at(account.clone(), 1, 60, at);
        let unit = take(now).unwrap();
        assert_eq!(take(now), None);
        units.give_back(&account, unit);
        let again = take(now).unwrap();
        assert_ne!(take(later), None);
        units.give_back(&account, again);
        assert_eq!(take(later), None);
    }

    #[test]
    fn one_caller_at_a_time_asks_redis_whether_it_counts_again() {
        let units = LocalUnits::default();
        let now = Instant::now();
        let account = account("t", LimitSide::Read);
        let counter = |at| units.counter_at(&account, at);
        assert_eq!(counter(now), Counter::Redis);
        units.failed_at(account.clone(), 60, now);
        assert_eq!(counter(now), Counter::Local);
        let later = now + RETRY_INTERVAL;
        assert_eq!(counter(later), Counter::LocalWithTrial);
        assert_eq!(counter(later), Counter::Local);
        // The trial outlasts the window.
        let taken = units.take_at(account.clone(), 1, 1, later + RETRY_INTERVAL);
        assert!(taken.is_some());
        assert_eq!(counter(later + RETRY_INTERVAL), Counter::Local);
        units.failed_at(account.clone(), 60, later);
        assert_eq!(counter(later), Counter::Local);
        assert_eq!(counter(later + RETRY_INTERVAL), Counter::LocalWithTrial);
        units.counted_by_redis(&account);
        assert_eq!(counter(later), Counter::Redis);
    }

    #[test]
    fn windows_that_are_over_are_removed() {
        let units = LocalUnits::default();
        let now = Instant::now();
        let fail = |number: usize, at| {
            let account = account(&number.to_string(), LimitSide::Read);
            units.failed_at(account, 1, at);
        };
        (0..WINDOWS_MIN).for_each(|number| fail(number, now));
        fail(WINDOWS_MIN, now + Duration::from_secs(1));
        assert_eq!(units.lock().len(), 1);
    }
}
