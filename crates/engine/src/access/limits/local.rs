//! Units of rate limits that this process counts while Redis is unavailable.
//!
//! Each process counts separately, so together they allow up to the limit times the number of processes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_store::{LimitHolder, LimitSide};

/// How long Redis is not asked again after it has failed to count a unit of an account.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The number of windows from which on ended windows are removed.
const WINDOWS_MIN: usize = 1024;

/// The holder of a limit, and one side of it: consumes or publishes.
pub(super) type LimitAccount = (LimitHolder, LimitSide);

#[derive(Debug, Default)]
pub(super) struct LocalUnits(Mutex<HashMap<LimitAccount, Window>>);

/// Who counts the units of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitCounter {
    Redis,
    /// This process: Redis has failed within [`RETRY_INTERVAL`], or a trial is in flight.
    Local,
    /// This process, and the caller must start a trial: ask Redis for a unit, and then call [`LocalUnits::failed`] or
    /// [`LocalUnits::counted_by_redis`]. Returned to one caller at a time.
    LocalWithTrial,
}

/// A unit that this process counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocalUnit {
    /// The start of its window.
    window: Instant,
}

#[derive(Debug)]
struct Window {
    began_at: Instant,
    length: Duration,
    taken: u64,
    /// When Redis failed last; `None` once it counts again.
    failed_at: Option<Instant>,
    trial_in_flight: bool,
}

impl LocalUnits {
    /// Who counts the units of this account.
    pub(super) fn counted_by(&self, account: &LimitAccount, now: Instant) -> UnitCounter {
        let mut windows = self.0.lock();
        let Some(window) = windows.get_mut(account) else {
            return UnitCounter::Redis;
        };
        match window.failed_at {
            None => UnitCounter::Redis,
            Some(at) if now.saturating_duration_since(at) < RETRY_INTERVAL => UnitCounter::Local,
            Some(_) if std::mem::replace(&mut window.trial_in_flight, true) => UnitCounter::Local,
            Some(_) => UnitCounter::LocalWithTrial,
        }
    }

    /// Records that Redis failed to count. The next units of this account are counted here.
    pub(super) fn failed(&self, account: LimitAccount, interval_seconds: u32, now: Instant) {
        let mut windows = self.0.lock();
        if windows.len() >= WINDOWS_MIN {
            windows.retain(|_, window| window.trial_in_flight || !window.is_over(now));
        }
        let begun = || Window::new(interval_seconds, now);
        let window = windows.entry(account).or_insert_with(begun);
        window.failed_at = Some(now);
        window.trial_in_flight = false;
    }

    /// Records that Redis counted a unit of this account.
    pub(super) fn counted_by_redis(&self, account: &LimitAccount) {
        if let Some(window) = self.0.lock().get_mut(account) {
            window.failed_at = None;
            window.trial_in_flight = false;
        }
    }

    /// Takes one of the `units_max` units of the current window, or of a new one if that has ended; `None` if all are
    /// taken.
    pub(super) fn take(
        &self,
        account: LimitAccount,
        units_max: u64,
        interval_seconds: u32,
        now: Instant,
    ) -> Option<LocalUnit> {
        let mut windows = self.0.lock();
        let begun = || Window::new(interval_seconds, now);
        let window = windows.entry(account).or_insert_with(begun);
        if window.is_over(now) {
            *window = Window {
                failed_at: window.failed_at,
                trial_in_flight: window.trial_in_flight,
                ..begun()
            };
        }
        let is_there = window.taken < units_max;
        window.taken += u64::from(is_there);
        is_there.then_some(LocalUnit {
            window: window.began_at,
        })
    }

    /// Gives a unit back, if its window has not been replaced.
    pub(super) fn give_back(&self, account: &LimitAccount, unit: LocalUnit) {
        if let Some(window) = self.0.lock().get_mut(account)
            && window.began_at == unit.window
        {
            window.taken = window.taken.saturating_sub(1);
        }
    }
}

impl Window {
    fn new(interval_seconds: u32, now: Instant) -> Self {
        Self {
            began_at: now,
            length: Duration::from_secs(interval_seconds.into()),
            taken: 0,
            failed_at: None,
            trial_in_flight: false,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began_at) >= self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(token: &str, side: LimitSide) -> LimitAccount {
        (LimitHolder::new("p", "n", token), side)
    }

    #[test]
    fn each_side_of_a_token_has_its_units_once_a_window() {
        let units = LocalUnits::default();
        let now = Instant::now();
        let take = |side, at| units.take(account("t", side), 2, 60, at).is_some();
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
        let take = |at| units.take(account.clone(), 1, 60, at);
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
        let counter = |at| units.counted_by(&account, at);
        assert_eq!(counter(now), UnitCounter::Redis);
        units.failed(account.clone(), 60, now);
        assert_eq!(counter(now), UnitCounter::Local);
        let later = now + RETRY_INTERVAL;
        assert_eq!(counter(later), UnitCounter::LocalWithTrial);
        assert_eq!(counter(later), UnitCounter::Local);
        // The trial outlasts the window.
        let taken = units.take(account.clone(), 1, 1, later + RETRY_INTERVAL);
        assert!(taken.is_some());
        assert_eq!(counter(later + RETRY_INTERVAL), UnitCounter::Local);
        units.failed(account.clone(), 60, later);
        assert_eq!(counter(later), UnitCounter::Local);
        assert_eq!(counter(later + RETRY_INTERVAL), UnitCounter::LocalWithTrial);
        units.counted_by_redis(&account);
        assert_eq!(counter(later), UnitCounter::Redis);
    }

    #[test]
    fn windows_that_are_over_are_removed() {
        let units = LocalUnits::default();
        let now = Instant::now();
        let fail = |number: usize, at| {
            let account = account(&number.to_string(), LimitSide::Read);
            units.failed(account, 1, at);
        };
        (0..WINDOWS_MIN).for_each(|number| fail(number, now));
        fail(WINDOWS_MIN, now + Duration::from_secs(1));
        assert_eq!(units.0.lock().len(), 1);
    }
}
