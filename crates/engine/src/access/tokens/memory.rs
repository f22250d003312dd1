//! A cache of answers of Redis about tokens, limits and API keys.
//!
//! An answer is fresh for a second. It is kept for up to an hour, for requests while Redis does not answer
//! (`last_known.rs`). The cache is bounded in bytes; the least used answers make room for others.
//!
//! Each request reads it, so a hit does not allocate.

mod entry;

use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use tidegate_core::Namespace;
use tidegate_store::LimitHolder;
use tokio::sync::watch;

use entry::CacheEntry;
pub(crate) use entry::{JoinedRefresh, Refresh, RefreshAnswer};

/// How long an answer is kept, for use while Redis does not answer.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(3600);

/// The most bytes of all entries.
const BYTES_MAX: u64 = 64 << 20;
/// The bytes of an entry beside its name, rounded up.
const ENTRY_BYTES: u64 = 256;
/// The number of entries that the cache is prepared for.
const ENTRIES_ESTIMATE: usize = 1000;

/// The stored form of a token, with its namespace and pool. The three texts are separate, so that different triples are
/// never equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenKey<'a> {
    pool: &'a str,
    namespace: &'a str,
    token: &'a str,
}

/// A [`TokenKey`] that owns its texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct OwnedTokenKey {
    pool: Box<str>,
    namespace: Box<str>,
    token: Box<str>,
}

/// The owned name of the subject of an answer.
pub(crate) trait CachedName: Clone + Eq + Hash + Send + Sync + 'static {
    /// The bytes that the name and the largest answer about it have outside of their entry.
    fn heap_bytes(&self) -> usize;
}

#[derive(Debug)]
pub(crate) struct AnswerCache<K: CachedName, V> {
    entries: Cache<K, Arc<Mutex<CacheEntry<V>>>, EntryBytes>,
}

#[derive(Debug, Clone)]
struct EntryBytes;

/// A cached answer, by age and state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CachedAnswer<V> {
    /// Redis was asked within the last second.
    Fresh(V),
    /// The same, and a refresh is due.
    Aging(V),
    /// Redis was asked earlier, and its last answer was in time.
    Old(V),
    /// Redis was asked earlier, and has failed since, or its last answer was late.
    Unconfirmed(V),
}

impl<'a> TokenKey<'a> {
    /// Names the token of a namespace of a pool.
    pub fn new(pool: &'a str, namespace: &'a Namespace, token: &'a str) -> Self {
        Self {
            pool,
            namespace: namespace.as_str(),
            token,
        }
    }

    pub fn holder(self) -> LimitHolder {
        LimitHolder::new(self.pool, self.namespace, self.token)
    }

    pub(crate) fn of_owned(owned: &'a OwnedTokenKey) -> Self {
        Self {
            pool: &owned.pool,
            namespace: &owned.namespace,
            token: &owned.token,
        }
    }

    /// The token of the holder of a limit.
    pub(crate) fn of_holder(holder: &'a LimitHolder) -> Self {
        let (pool, namespace, token) = holder.parts();
        Self {
            pool,
            namespace,
            token,
        }
    }
}

impl Equivalent<OwnedTokenKey> for TokenKey<'_> {
    fn equivalent(&self, owned: &OwnedTokenKey) -> bool {
        *self == TokenKey::of_owned(owned)
    }
}

impl From<TokenKey<'_>> for OwnedTokenKey {
    fn from(name: TokenKey<'_>) -> Self {
        Self {
            pool: name.pool.into(),
            namespace: name.namespace.into(),
            token: name.token.into(),
        }
    }
}

impl CachedName for OwnedTokenKey {
    fn heap_bytes(&self) -> usize {
        self.pool.len() + self.namespace.len() + self.token.len()
    }
}

impl<K: CachedName, V> Weighter<K, Arc<Mutex<CacheEntry<V>>>> for EntryBytes {
    fn weight(&self, name: &K, _: &Arc<Mutex<CacheEntry<V>>>) -> u64 {
        name.heap_bytes() as u64 + ENTRY_BYTES
    }
}

impl<K: CachedName, V: Clone> AnswerCache<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Cache::with_weighter(ENTRIES_ESTIMATE, BYTES_MAX, EntryBytes),
        }
    }

    /// The cached answer about a name, if it is younger than [`KEPT_FOR`].
    pub(crate) fn get<Q>(&self, name: &Q, now: Instant) -> Option<CachedAnswer<V>>
    where
        Q: Hash + Equivalent<K>,
    {
        let known = |entry: &mut CacheEntry<V>| {
            let is_kept = entry.age(now) < KEPT_FOR;
            is_kept.then(|| entry.known(now))
        };
        self.change(name, known).flatten()
    }

    /// Whether the answer about a name is younger than `time`.
    pub(crate) fn is_younger_than<Q>(&self, name: &Q, time: Duration) -> bool
    where
        Q: Hash + Equivalent<K>,
    {
        let age = self.change(name, |entry| entry.age(Instant::now()));
        age.is_some_and(|age| age < time)
    }

    /// Caches an answer of Redis, which was asked at `asked_at`.
    pub(crate) fn insert(&self, name: K, value: V, asked_at: Instant) {
        let entry = CacheEntry::new(value, asked_at);
        self.entries.insert(name, Arc::new(Mutex::new(entry)));
    }

    /// Begins a refresh if it is due; returns a sender to one caller at a time. That caller must ask Redis, then call
    /// [`Self::confirm`], [`Self::failed`] or [`Self::forget`], and then drop the sender.
    pub(crate) fn begin_refresh<Q>(&self, name: &Q) -> Option<watch::Sender<RefreshAnswer<V>>>
    where
        Q: Hash + Equivalent<K>,
    {
        self.change(name, CacheEntry::begin_refresh).flatten()
    }

    /// The refresh in flight for a name, or a new one; `None` if the name is not cached.
    pub(crate) fn join_refresh<Q>(&self, name: &Q) -> Option<JoinedRefresh<V>>
    where
        Q: Hash + Equivalent<K>,
    {
        self.change(name, CacheEntry::join_refresh)
    }

    /// Records the answer to a refresh, for which Redis was asked at `asked_at`. Entries that were removed meanwhile
    /// are not added again.
    pub(crate) fn confirm<Q>(&self, name: &Q, value: V, asked_at: Instant, is_late: bool)
    where
        Q: Hash + Equivalent<K>,
    {
        self.change(name, |entry| entry.confirm(value, asked_at, is_late));
    }

    /// Records that a refresh failed.
    pub(crate) fn failed<Q>(&self, name: &Q)
    where
        Q: Hash + Equivalent<K>,
    {
        self.change(name, CacheEntry::failed);
    }

    /// Reads or changes the entry of a name, if there is one.
    fn change<Q, T>(&self, name: &Q, change: impl FnOnce(&mut CacheEntry<V>) -> T) -> Option<T>
    where
        Q: Hash + Equivalent<K>,
    {
        let entry = self.entries.get(name)?;
        let mut entry = entry.lock();
        Some(change(&mut entry))
    }

    /// Removes the answer about a name.
    pub(crate) fn forget<Q>(&self, name: &Q)
    where
        Q: Hash + Equivalent<K>,
    {
        self.entries.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::entry::{FRESH_FOR, LATE_FOR, REFRESH_FROM, RETRY_INTERVAL};
    use super::*;

    const fn name(token: &str) -> TokenKey<'_> {
        TokenKey {
            pool: "p",
            namespace: "n",
            token,
        }
    }

    fn kept(ago: Duration) -> (AnswerCache<OwnedTokenKey, i32>, Instant) {
        let memory = AnswerCache::<OwnedTokenKey, i32>::new();
        let asked_at = Instant::now() - ago;
        memory.insert(name("a").into(), 1, asked_at);
        (memory, asked_at)
    }

    #[test]
    fn an_answer_is_fresh_for_a_second_and_kept_for_an_hour_or_until_it_is_removed() {
        let memory = AnswerCache::<OwnedTokenKey, i32>::new();
        let now = Instant::now();
        memory.insert(name("a").into(), 1, now);
        memory.insert(name("b").into(), 2, now);
        let nearly = |after: Duration| now + after - Duration::from_millis(1);
        let get = |at| memory.get(&name("a"), at);
        assert_eq!(get(nearly(REFRESH_FROM)), Some(CachedAnswer::Fresh(1)));
        assert_eq!(get(nearly(FRESH_FOR)), Some(CachedAnswer::Aging(1)));
        assert_eq!(get(now + FRESH_FOR), Some(CachedAnswer::Old(1)));
        assert_eq!(get(nearly(KEPT_FOR)), Some(CachedAnswer::Old(1)));
        assert_eq!(get(now + KEPT_FOR), None);
        assert_eq!(memory.get(&name("c"), now), None);
        memory.forget(&name("a"));
        assert_eq!(memory.get(&name("a"), now), None);
        assert_eq!(memory.get(&name("b"), now), Some(CachedAnswer::Fresh(2)));
    }

    #[test]
    fn one_caller_at_a_time_refreshes_an_answer() {
        let (memory, _) = kept(REFRESH_FROM);
        let a = name("a");
        assert_eq!(memory.get(&a, Instant::now()), Some(CachedAnswer::Aging(1)));
        let sender = memory.begin_refresh(&a).expect("it is due");
        assert_eq!(memory.get(&a, Instant::now()), Some(CachedAnswer::Fresh(1)));
        assert!(memory.begin_refresh(&a).is_none(), "a refresh is in flight");
        let joined = memory.join_refresh(&a);
        assert!(matches!(joined, Some(JoinedRefresh::Refresh(_, None))));
        memory.confirm(&a, 2, Instant::now(), false);
        drop(sender);
        assert!(matches!(
            memory.join_refresh(&a),
            Some(JoinedRefresh::Known(2))
        ));
        assert_eq!(memory.get(&a, Instant::now()), Some(CachedAnswer::Fresh(2)));
        assert!(memory.begin_refresh(&a).is_none(), "it is fresh");
    }

    #[test]
    fn a_failed_refresh_is_retried_after_half_a_second() {
        let (memory, _) = kept(FRESH_FOR);
        let a = name("a");
        assert_eq!(memory.get(&a, Instant::now()), Some(CachedAnswer::Old(1)));
        memory.failed(&a);
        assert_eq!(
            memory.get(&a, Instant::now()),
            Some(CachedAnswer::Unconfirmed(1))
        );
        assert!(memory.begin_refresh(&a).is_none(), "it failed just now");
        #[expect(clippy::disallowed_methods, reason = "a test without a runtime")]
        std::thread::sleep(RETRY_INTERVAL);
        // A refresh whose sender was dropped without an answer can begin again.
        assert!(memory.begin_refresh(&a).is_some());
        assert!(memory.begin_refresh(&a).is_some());
        memory.failed(&name("b"));
        assert_eq!(memory.get(&name("b"), Instant::now()), None);
    }

    #[test]
    fn requests_do_not_wait_for_some_time_after_a_late_answer() {
        let (memory, _) = kept(FRESH_FOR);
        let a = name("a");
        let now = Instant::now();
        memory.confirm(&a, 1, now, true);
        let get = |after| memory.get(&a, now + after);
        assert_eq!(get(FRESH_FOR), Some(CachedAnswer::Unconfirmed(1)));
        assert_eq!(get(LATE_FOR + FRESH_FOR), Some(CachedAnswer::Old(1)));
    }

    #[test]
    fn a_removed_answer_is_not_added_again_and_an_older_one_replaces_none() {
        let (memory, asked_at) = kept(FRESH_FOR);
        let a = name("a");
        memory.confirm(&a, 2, asked_at - FRESH_FOR, false);
        assert_eq!(memory.get(&a, Instant::now()), Some(CachedAnswer::Old(1)));
        memory.forget(&a);
        memory.confirm(&a, 2, Instant::now(), false);
        assert_eq!(memory.get(&a, Instant::now()), None);
    }

    #[test]
    fn tokens_of_other_pools_and_namespaces_are_other_tokens() {
        let memory = AnswerCache::<OwnedTokenKey, i32>::new();
        memory.insert(name("a").into(), 1, Instant::now());
        let in_pool = TokenKey {
            pool: "pn",
            namespace: "",
            token: "a",
        };
        let in_namespace = TokenKey {
            pool: "p",
            namespace: "na",
            token: "",
        };
        assert_eq!(
            [in_pool, in_namespace].map(|name| memory.get(&name, Instant::now())),
            [None; 2]
        );
    }

    #[test]
    fn the_bytes_of_entries_are_bounded_and_the_last_one_is_kept() {
        let memory = AnswerCache::<OwnedTokenKey, i32>::new();
        let now = Instant::now();
        let long = "x".repeat(100 << 10);
        for number in 0..2000 {
            let token = format!("{number}{long}");
            memory.insert(name(&token).into(), number, now);
            assert_eq!(
                memory.get(&name(&token), now),
                Some(CachedAnswer::Fresh(number))
            );
            let bytes = memory.entries.weight();
            assert!(bytes <= BYTES_MAX, "{bytes}");
        }
        assert!(memory.entries.weight() > BYTES_MAX / 2);
    }
}
