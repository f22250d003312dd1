//! Figures by name, a bounded number of names.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A name that nothing happened to for so long gives its place to another one.
const IDLE: Duration = Duration::from_secs(3600);
/// Between two looks for such names.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Figures of those that were met first, and of all others together.
#[derive(Debug)]
pub(super) struct Ledger<K, V> {
    entries_max: usize,
    /// The clock of this ledger begins here.
    began_at: Instant,
    inner: RwLock<Inner<K, V>>,
    others: Arc<V>,
}

#[derive(Debug)]
struct Inner<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// When idle names were looked for, in seconds.
    looked_s: u64,
}

#[derive(Debug)]
struct Entry<V> {
    figures: Arc<V>,
    /// When something happened last, in seconds.
    used_s: AtomicU64,
}

impl<K: Eq + Hash + Clone, V: Default> Ledger<K, V> {
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            entries_max,
            began_at: Instant::now(),
            inner: RwLock::new(Inner {
                entries: HashMap::new(),
                looked_s: 0,
            }),
            others: Arc::default(),
        }
    }

    /// Where to note what happens to `key`.
    pub(super) fn of(&self, key: &K) -> Arc<V> {
        self.of_at(key, self.began_at.elapsed().as_secs())
    }

    fn of_at(&self, key: &K, now_s: u64) -> Arc<V> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = inner.entries.get(key) {
            entry.used_s.store(now_s, Ordering::Relaxed);
            return Arc::clone(&entry.figures);
        }
        if inner.entries.len() >= self.entries_max
            && now_s < inner.looked_s + LOOK_INTERVAL.as_secs()
        {
            return Arc::clone(&self.others);
        }
        drop(inner);
        self.enter(key, now_s)
    }

    fn enter(&self, key: &K, now_s: u64) -> Arc<V> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.entries.len() >= self.entries_max {
            inner.looked_s = now_s;
            let is_in_use = |entry: &mut Entry<V>| *entry.used_s.get_mut() + IDLE.as_secs() > now_s;
            inner.entries.retain(|_, entry| is_in_use(entry));
        }
        if inner.entries.len() >= self.entries_max && !inner.entries.contains_key(key) {
            return Arc::clone(&self.others);
        }
        let entry = inner.entries.entry(key.clone()).or_insert_with(|| Entry {
            figures: Arc::default(),
            used_s: AtomicU64::new(now_s),
        });
        Arc::clone(&entry.figures)
    }

    /// All figures with their names; those of the others come last, without one.
    pub(super) fn all(&self) -> Vec<(Option<K>, Arc<V>)> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let known = inner.entries.iter();
        let known = known.map(|(key, entry)| (Some(key.clone()), Arc::clone(&entry.figures)));
        known.chain([(None, Arc::clone(&self.others))]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger<&'static str, AtomicU64> {
        Ledger::new(2)
    }

    fn told(ledger: &Ledger<&'static str, AtomicU64>) -> Vec<(Option<&'static str>, u64)> {
        let mut told: Vec<_> = ledger
            .all()
            .into_iter()
            .map(|(key, figure)| (key, figure.load(Ordering::Relaxed)))
            .collect();
        told.sort();
        told
    }

    fn add(ledger: &Ledger<&'static str, AtomicU64>, key: &'static str, now_s: u64) {
        ledger.of_at(&key, now_s).fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn names_beyond_the_limit_are_counted_together() {
        let ledger = ledger();
        for key in ["a", "b", "c", "a", "d", "c"] {
            add(&ledger, key, 1);
        }
        assert_eq!(told(&ledger), [(None, 3), (Some("a"), 2), (Some("b"), 1)]);
    }

    #[test]
    fn a_name_that_is_idle_for_an_hour_makes_room() {
        let ledger = ledger();
        add(&ledger, "a", 1);
        add(&ledger, "b", 1);
        add(&ledger, "a", 3600);
        add(&ledger, "c", 3600);
        assert_eq!(told(&ledger)[0], (None, 1), "b is not idle long enough");
        add(&ledger, "c", 3605);
        assert_eq!(told(&ledger)[0], (None, 2), "too soon for another look");
        add(&ledger, "c", 3700);
        assert_eq!(told(&ledger), [(None, 2), (Some("a"), 2), (Some("c"), 1)]);
    }

    #[test]
    fn nobody_is_forgotten_while_there_is_room() {
        let ledger = ledger();
        add(&ledger, "a", 1);
        add(&ledger, "b", 1_000_000);
        assert_eq!(told(&ledger), [(None, 0), (Some("a"), 1), (Some("b"), 1)]);
    }
}
