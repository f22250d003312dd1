//! Calls that may have taken a unit, but whose replies were lost. A later call gives these units back.
//!
//! Redis stores the ids of the last calls that took a unit of a window. A unit is given back if the id of its call is
//! among them. The id is removed then, so that no unit is given back twice.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Redis stores this number of ids of a window (`limits_take.lua`), so more calls are not needed.
const CALLS_MAX: usize = 32;
/// Maximum number of windows whose calls are kept.
const WINDOWS_MAX: usize = 1024;
/// If there are more windows, those whose calls are all older than this are dropped.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// The id of a call that takes a unit: 48 random bits as hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallId(String);

/// Calls whose replies were lost, by the key of the units.
#[derive(Debug, Default)]
pub(super) struct LostReplies(Mutex<HashMap<String, Vec<LostCall>>>);

#[derive(Debug)]
struct LostCall {
    call: CallId,
    /// Redis may execute the call until this time.
    settled_at: Instant,
}

impl CallId {
    pub(super) fn random() -> Self {
        Self(format!("{:012x}", rand::random::<u64>() >> 16))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl LostReplies {
    /// Adds calls that Redis will not execute after `settled_at`.
    pub(super) fn add(&self, key: &str, calls: Vec<CallId>, settled_at: Instant) {
        let mut lost = self.lock();
        if lost.len() >= WINDOWS_MAX {
            let now = Instant::now();
            let is_recent = |it: &LostCall| now.saturating_duration_since(it.settled_at) < KEPT_FOR;
            lost.retain(|_, calls| calls.iter().any(is_recent));
        }
        if lost.len() >= WINDOWS_MAX && !lost.contains_key(key) {
            return;
        }
        let of_key = lost.entry(key.to_owned()).or_default();
        of_key.extend(calls.into_iter().map(|call| LostCall { call, settled_at }));
        let excess = of_key.len().saturating_sub(CALLS_MAX);
        of_key.drain(..excess);
    }

    /// Removes and returns the calls that Redis will not execute any more.
    pub(super) fn take_settled(&self, key: &str) -> Vec<CallId> {
        let mut lost = self.lock();
        let Some(of_key) = lost.get_mut(key) else {
            return Vec::new();
        };
        let now = Instant::now();
        let settled = of_key.extract_if(.., |lost| lost.settled_at <= now);
        let settled = settled.map(|lost| lost.call).collect();
        if of_key.is_empty() {
            lost.remove(key);
        }
        settled
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<LostCall>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: usize) -> Vec<CallId> {
        (0..count).map(|_| CallId::random()).collect()
    }

    #[test]
    fn a_call_is_returned_once_and_not_before_it_is_settled() {
        let lost = LostReplies::default();
        let now = Instant::now();
        let (settled, running) = (ids(2), ids(1));
        lost.add("a", settled.clone(), now);
        lost.add("a", running, now + KEPT_FOR);
        assert_eq!(lost.take_settled("b"), []);
        assert_eq!(lost.take_settled("a"), settled);
        assert_eq!(lost.take_settled("a"), []);
        assert_eq!(lost.lock().len(), 1);
        assert!(settled.iter().all(|call| call.as_str().len() == 12));
    }

    #[test]
    fn memory_is_bounded_and_the_latest_calls_are_kept() {
        let lost = LostReplies::default();
        let now = Instant::now();
        let calls = ids(CALLS_MAX + 5);
        lost.add("a", calls.clone(), now);
        assert_eq!(lost.take_settled("a"), calls[5..]);
        (0..WINDOWS_MAX + 5).for_each(|key| lost.add(&key.to_string(), ids(1), now));
        assert_eq!(lost.lock().len(), WINDOWS_MAX);
    }
}
