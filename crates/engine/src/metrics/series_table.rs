//! Metrics by name, for a bounded number of names.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use parking_lot::RwLock;

/// The time without an event after which a name may be replaced by another one.
const IDLE: Duration = Duration::from_secs(3600);
/// The least time between two searches for such names.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The metrics of the first `entries_max` names, and of all other names together.
#[derive(Debug)]
pub struct SeriesTable<K, V> {
    entries_max: usize,
    /// Times in seconds are relative to this.
    began_at: Instant,
    inner: RwLock<SeriesTableInner<K, V>>,
    others: Arc<V>,
}

#[derive(Debug)]
struct SeriesTableInner<K, V> {
    entries: HashMap<K, SeriesEntry<V>>,
    /// The time of the last search for idle names, in seconds.
    looked_s: u64,
}

#[derive(Debug)]
struct SeriesEntry<V> {
    figures: Arc<V>,
    /// The time of the last event, in seconds.
    used_s: AtomicU64,
}

impl<K: Ord + Hash + Clone, V: Default> SeriesTable<K, V> {
    /// The metrics of an idle name are dropped when another name takes its place.
    pub fn new(entries_max: usize) -> Self {
        Self {
            entries_max,
            began_at: Instant::now(),
            inner: RwLock::new(SeriesTableInner {
                entries: HashMap::default(),
                looked_s: 0,
            }),
            others: Arc::default(),
        }
    }

    /// The metrics of `key`, or the metrics of all other names if there is no room for it.
    pub fn get(&self, key: &K) -> Arc<V> {
        self.of_at(key, self.began_at.elapsed().as_secs())
    }

    /// The metrics of `key` if it has some of its own. This is no event of that name.
    pub fn known(&self, key: &K) -> Option<Arc<V>> {
        let inner = self.inner.read();
        Some(Arc::clone(&inner.entries.get(key)?.figures))
    }

    /// The metrics of all names for which there is no room.
    pub fn others(&self) -> Arc<V> {
        Arc::clone(&self.others)
    }

    /// The metrics of all names, in their order; `None` = of the names for which there is no room.
    pub fn rows(&self) -> Vec<(Option<K>, Arc<V>)> {
        let inner = self.inner.read();
        let named = inner.entries.iter();
        let named = named.map(|(key, entry)| (Some(key.clone()), Arc::clone(&entry.figures)));
        let mut rows: Vec<_> = named.chain([(None, self.others())]).collect();
        drop(inner);
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        rows
    }

    fn of_at(&self, key: &K, now_s: u64) -> Arc<V> {
        let inner = self.inner.read();
        if let Some(entry) = inner.entries.get(key) {
            entry.used_s.store(now_s, Ordering::Relaxed);
            return Arc::clone(&entry.figures);
        }
        if inner.entries.len() >= self.entries_max
            && now_s < inner.looked_s + LOOK_INTERVAL.as_secs()
        {
            return self.others();
        }
        drop(inner);
        self.insert(key, now_s)
    }

    fn insert(&self, key: &K, now_s: u64) -> Arc<V> {
        let mut inner = self.inner.write();
        if inner.entries.len() >= self.entries_max {
            inner.looked_s = now_s;
            let is_in_use =
                |entry: &mut SeriesEntry<V>| *entry.used_s.get_mut() + IDLE.as_secs() > now_s;
            inner.entries.retain(|_, entry| is_in_use(entry));
        }
        if inner.entries.len() >= self.entries_max && !inner.entries.contains_key(key) {
            return self.others();
        }
        let entry = inner
            .entries
            .entry(key.clone())
            .or_insert_with(|| SeriesEntry {
                figures: Arc::default(),
                used_s: AtomicU64::new(now_s),
            });
        Arc::clone(&entry.figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SeriesTable<&'static str, AtomicU64> {
        SeriesTable::new(2)
    }

    fn counts(table: &SeriesTable<&'static str, AtomicU64>) -> Vec<(Option<&'static str>, u64)> {
        let rows = table.rows().into_iter();
        rows.map(|(key, count)| (key, count.load(Ordering::Relaxed)))
            .collect()
    }

    fn add(table: &SeriesTable<&'static str, AtomicU64>, key: &'static str, now_s: u64) {
        table.of_at(&key, now_s).fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn names_beyond_the_limit_are_counted_together() {
        let table = table();
        for key in ["a", "b", "c", "a", "d", "c"] {
            add(&table, key, 1);
        }
        assert_eq!(counts(&table), [(None, 3), (Some("a"), 2), (Some("b"), 1)]);
    }

    #[test]
    fn a_name_that_is_idle_for_an_hour_makes_room() {
        let table = table();
        add(&table, "a", 1);
        add(&table, "b", 1);
        add(&table, "a", 3600);
        add(&table, "c", 3600);
        assert_eq!(counts(&table)[0], (None, 1), "b is not idle long enough");
        add(&table, "c", 3605);
        assert_eq!(counts(&table)[0], (None, 2), "too soon for another look");
        add(&table, "c", 3700);
        assert_eq!(counts(&table), [(None, 2), (Some("a"), 2), (Some("c"), 1)]);
    }

    #[test]
    fn idle_names_are_kept_while_there_is_room() {
        let table = table();
        add(&table, "a", 1);
        add(&table, "b", 1_000_000);
        assert_eq!(counts(&table), [(None, 0), (Some("a"), 1), (Some("b"), 1)]);
    }
}
