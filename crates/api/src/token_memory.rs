//! A memory of what Redis said about tokens.
//!
//! An answer counts for a second. It is kept longer, for requests that come while Redis does not answer
//! (`last_known.rs`), bounded in age, number and bytes.
//!
//! It is asked with each request, so a question that it can answer allocates nothing: an entry is found by
//! the hash of its name, and counts only if the name is the same.

mod entry;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use tidegate_core::Namespace;
use tidegate_store::LimitHolder;
use tokio::sync::watch;

pub(crate) use entry::{Answer, Joined, Refresh};
use entry::{Entry, FRESH_FOR};

/// While Redis does not answer, what it said counts for this long.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(3600);

/// So many tokens at a time are remembered, with names of so many bytes in all.
const ENTRIES_MAX: usize = 100_000;
const BYTES_MAX: usize = 32 << 20;
/// Below this entries that are over are left alone.
const ENTRIES_MIN: usize = 1024;

/// A token as it is stored, of a namespace in a pool: three texts, so that no two triples are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TokenName<'a> {
    pool: &'a str,
    namespace: &'a str,
    token: &'a str,
}

/// What was said about tokens lately.
#[derive(Debug)]
pub(crate) struct TokenMemory<V> {
    hasher: RandomState,
    inner: RwLock<Inner<V>>,
}

/// What is known of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known<V> {
    /// Redis said so within the last second.
    Fresh(V),
    /// The same, and it is time to ask again.
    Aging(V),
    /// Redis said so earlier, and answered in time when it was asked last.
    Old(V),
    /// Redis said so earlier, and has not answered since, or was late.
    Unconfirmed(V),
}

#[derive(Debug)]
struct Inner<V> {
    by_hash: HashMap<u64, Entry<V>>,
    name_bytes: usize,
    /// With so many entries it is time to look for those that are over.
    look_at: usize,
}

impl<'a> TokenName<'a> {
    pub(crate) fn new(pool: &'a str, namespace: &'a Namespace, token: &'a str) -> Self {
        Self {
            pool,
            namespace: namespace.as_str(),
            token,
        }
    }

    /// Who has its limit.
    pub(crate) fn holder(self) -> LimitHolder {
        LimitHolder::new(self.pool, self.namespace, self.token)
    }

    /// The token that has, or may have, this limit.
    pub(crate) fn of_holder(holder: &'a LimitHolder) -> Self {
        let (pool, namespace, token) = holder.parts();
        Self {
            pool,
            namespace,
            token,
        }
    }

    const fn bytes(self) -> usize {
        self.pool.len() + self.namespace.len() + self.token.len()
    }
}

impl<V> Inner<V> {
    fn is_full(&self, more_bytes: usize) -> bool {
        self.by_hash.len() >= ENTRIES_MAX || self.name_bytes + more_bytes > BYTES_MAX
    }

    fn keep_younger_than(&mut self, age: Duration, now: Instant) {
        self.by_hash
            .retain(|_, entry| entry.is_younger_than(age, now));
        let names = self.by_hash.values().map(|entry| entry.name().bytes());
        self.name_bytes = names.sum();
    }

    fn remove(&mut self, hash: u64) {
        if let Some(entry) = self.by_hash.remove(&hash) {
            self.name_bytes -= entry.name().bytes();
        }
    }
}

impl<V: Copy> TokenMemory<V> {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            inner: RwLock::new(Inner {
                by_hash: HashMap::new(),
                name_bytes: 0,
                look_at: ENTRIES_MIN,
            }),
        }
    }

    /// What was said of this token, if that is not too long ago.
    pub(crate) fn get(&self, name: TokenName<'_>) -> Option<Known<V>> {
        self.get_at(name, Instant::now())
    }

    fn get_at(&self, name: TokenName<'_>, now: Instant) -> Option<Known<V>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let entry = inner.by_hash.get(&self.hasher.hash_one(name))?;
        if entry.name() != name || !entry.is_younger_than(KEPT_FOR, now) {
            return None;
        }
        Some(entry.known(now))
    }

    /// Whether it is time to ask again about a token.
    pub(crate) fn is_due(&self, name: TokenName<'_>) -> bool {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let entry = inner.by_hash.get(&self.hasher.hash_one(name));
        entry.is_some_and(|entry| entry.name() == name && entry.is_due(Instant::now()))
    }

    /// Whether something was said of this token within this time.
    pub(crate) fn was_told_within(&self, name: TokenName<'_>, time: Duration) -> bool {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let entry = inner.by_hash.get(&self.hasher.hash_one(name));
        entry.is_some_and(|entry| {
            entry.name() == name && entry.is_younger_than(time, Instant::now())
        })
    }

    /// Remembers what was said when Redis was asked at this time.
    pub(crate) fn insert(&self, name: TokenName<'_>, value: V, asked_at: Instant) {
        self.insert_at(name, value, asked_at, Instant::now());
    }

    fn insert_at(&self, name: TokenName<'_>, value: V, asked_at: Instant, now: Instant) {
        let hash = self.hasher.hash_one(name);
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.remove(hash);
        if inner.by_hash.len() >= inner.look_at || inner.is_full(name.bytes()) {
            inner.keep_younger_than(KEPT_FOR, now);
            if inner.is_full(name.bytes()) {
                inner.keep_younger_than(FRESH_FOR, now);
            }
            inner.look_at = (inner.by_hash.len() * 2).clamp(ENTRIES_MIN, ENTRIES_MAX);
        }
        if inner.is_full(name.bytes()) {
            return;
        }
        let entry = Entry::new(name, value, asked_at);
        inner.name_bytes += name.bytes();
        inner.by_hash.insert(hash, entry);
    }

    /// Begins to ask again about a token if it is time. Answers one caller at a time, who then asks, and drops the sender
    /// behind [`Self::confirm`], [`Self::failed`] or [`Self::forget`].
    pub(crate) fn begin_refresh(&self, name: TokenName<'_>) -> Option<watch::Sender<Answer<V>>> {
        self.change(name, Entry::begin_refresh).flatten()
    }

    /// The question about this token that is in flight, or a new one; nothing if the token has been forgotten.
    pub(crate) fn join_refresh(&self, name: TokenName<'_>) -> Option<Joined<V>> {
        self.change(name, Entry::join_refresh)
    }

    /// Redis was asked at this time about a token that it knew before, and said so again. What has been forgotten
    /// meanwhile stays forgotten.
    pub(crate) fn confirm(&self, name: TokenName<'_>, value: V, asked_at: Instant, is_late: bool) {
        self.change(name, |entry| entry.confirm(value, asked_at, is_late));
    }

    /// Redis was asked about this token, and has not answered.
    pub(crate) fn failed(&self, name: TokenName<'_>) {
        self.change(name, Entry::failed);
    }

    fn change<T>(&self, name: TokenName<'_>, change: impl FnOnce(&mut Entry<V>) -> T) -> Option<T> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let entry = inner.by_hash.get_mut(&self.hasher.hash_one(name))?;
        (entry.name() == name).then(|| change(entry))
    }

    /// Forgets what was said of this token.
    pub(crate) fn forget(&self, name: TokenName<'_>) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.remove(self.hasher.hash_one(name));
    }
}

#[cfg(test)]
mod tests {
    use super::entry::{LATE_FOR, REFRESH_FROM, RETRY_INTERVAL};
    use super::*;

    const fn name(token: &str) -> TokenName<'_> {
        TokenName {
            pool: "p",
            namespace: "n",
            token,
        }
    }

    impl<V: Copy> TokenMemory<V> {
        fn insert_now(&self, name: TokenName<'_>, value: V, now: Instant) -> (usize, usize) {
            self.insert_at(name, value, now, now);
            let inner = self.inner.read().unwrap();
            (inner.by_hash.len(), inner.name_bytes)
        }
    }

    fn kept(ago: Duration) -> (TokenMemory<i32>, Instant) {
        let memory = TokenMemory::new();
        let asked_at = Instant::now() - ago;
        memory.insert(name("a"), 1, asked_at);
        (memory, asked_at)
    }

    #[test]
    fn an_answer_is_fresh_for_a_second_and_kept_for_an_hour_or_until_it_is_forgotten() {
        let memory = TokenMemory::new();
        let now = Instant::now();
        memory.insert_now(name("a"), 1, now);
        memory.insert_now(name("b"), 2, now);
        let nearly = |after: Duration| now + after - Duration::from_millis(1);
        let get = |at| memory.get_at(name("a"), at);
        assert_eq!(get(nearly(REFRESH_FROM)), Some(Known::Fresh(1)));
        assert_eq!(get(nearly(FRESH_FOR)), Some(Known::Aging(1)));
        assert_eq!(get(now + FRESH_FOR), Some(Known::Old(1)));
        assert_eq!(get(nearly(KEPT_FOR)), Some(Known::Old(1)));
        assert_eq!(get(now + KEPT_FOR), None);
        assert_eq!(memory.get_at(name("c"), now), None);
        memory.forget(name("a"));
        assert_eq!(memory.get_at(name("a"), now), None);
        assert_eq!(memory.get_at(name("b"), now), Some(Known::Fresh(2)));
    }

    #[test]
    fn one_caller_at_a_time_asks_again_and_the_others_do_not() {
        let (memory, _) = kept(REFRESH_FROM);
        let a = name("a");
        assert_eq!(memory.get(a), Some(Known::Aging(1)));
        let sender = memory.begin_refresh(a).expect("it is due");
        assert_eq!(memory.get(a), Some(Known::Fresh(1)));
        assert!(memory.begin_refresh(a).is_none(), "it is being asked for");
        let joined = memory.join_refresh(a);
        assert!(matches!(joined, Some(Joined::Refresh(_, None))));
        memory.confirm(a, 2, Instant::now(), false);
        drop(sender);
        assert!(matches!(memory.join_refresh(a), Some(Joined::Known(2))));
        assert_eq!(memory.get(a), Some(Known::Fresh(2)));
        assert!(memory.begin_refresh(a).is_none(), "it is fresh");
    }

    #[test]
    fn an_answer_that_redis_does_not_confirm_is_asked_for_again_after_half_a_second() {
        let (memory, _) = kept(FRESH_FOR);
        let a = name("a");
        assert_eq!(memory.get(a), Some(Known::Old(1)));
        memory.failed(a);
        assert_eq!(memory.get(a), Some(Known::Unconfirmed(1)));
        assert!(memory.begin_refresh(a).is_none(), "it failed just now");
        std::thread::sleep(RETRY_INTERVAL);
        // A question whose task has ended without an answer is asked again.
        assert!(memory.begin_refresh(a).is_some());
        assert!(memory.begin_refresh(a).is_some());
        memory.failed(name("b"));
        assert_eq!(memory.get(name("b")), None);
    }

    #[test]
    fn requests_do_not_wait_for_some_time_after_a_late_answer() {
        let (memory, _) = kept(FRESH_FOR);
        let a = name("a");
        let now = Instant::now();
        memory.confirm(a, 1, now, true);
        let get = |after| memory.get_at(a, now + after);
        assert_eq!(get(FRESH_FOR), Some(Known::Unconfirmed(1)));
        assert_eq!(get(LATE_FOR + FRESH_FOR), Some(Known::Old(1)));
    }

    #[test]
    fn what_was_forgotten_is_not_confirmed_and_an_older_answer_replaces_none() {
        let (memory, asked_at) = kept(FRESH_FOR);
        let a = name("a");
        memory.confirm(a, 2, asked_at - FRESH_FOR, false);
        assert_eq!(memory.get(a), Some(Known::Old(1)));
        memory.forget(a);
        memory.confirm(a, 2, Instant::now(), false);
        assert_eq!(memory.get(a), None);
    }

    #[test]
    fn the_same_token_in_another_place_is_another_one() {
        let memory = TokenMemory::new();
        memory.insert_now(name("a"), 1, Instant::now());
        let in_pool = TokenName {
            pool: "pn",
            namespace: "",
            token: "a",
        };
        let in_namespace = TokenName {
            pool: "p",
            namespace: "na",
            token: "",
        };
        assert_eq!(
            [in_pool, in_namespace].map(|name| memory.get(name)),
            [None; 2]
        );
    }

    #[test]
    fn memory_is_bounded_in_number() {
        let memory = TokenMemory::new();
        let now = Instant::now();
        for number in 0..ENTRIES_MAX + 10 {
            memory.insert_now(name(&number.to_string()), number, now);
        }
        assert_eq!(memory.inner.read().unwrap().by_hash.len(), ENTRIES_MAX);
        // Answers that are not fresh make room.
        let later = now + FRESH_FOR;
        let new = name("new");
        assert_eq!(memory.insert_now(new, 0, later), (1, new.bytes()));
        assert_eq!(memory.get_at(new, later), Some(Known::Fresh(0)));
    }

    #[test]
    fn memory_is_bounded_in_bytes() {
        let memory = TokenMemory::new();
        let now = Instant::now();
        let long = "x".repeat(BYTES_MAX / 4);
        let names: Vec<String> = (0..5).map(|number| format!("{number}{long}")).collect();
        let (mut entries, mut bytes) = (0, 0);
        for one in &names {
            (entries, bytes) = memory.insert_now(name(one), 0, now);
        }
        assert!(entries == 3 && bytes <= BYTES_MAX, "{entries}, {bytes}");
        // The same name again takes no more room.
        assert_eq!(memory.insert_now(name(&names[0]), 1, now), (3, bytes));
    }
}
