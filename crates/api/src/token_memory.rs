//! A short memory of what Redis said about tokens.
//!
//! It is asked with each request, so a question that it can answer allocates nothing: an entry is found by
//! the hash of its name, and counts only if the name is the same.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use tidegate_core::Namespace;
use tidegate_store::LimitHolder;

/// What is remembered holds for this long.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// So many tokens at a time are remembered.
const ENTRIES_MAX: usize = 100_000;
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

#[derive(Debug)]
struct Inner<V> {
    by_hash: HashMap<u64, Entry<V>>,
    /// With so many entries it is time to look for those that are over.
    look_at: usize,
}

#[derive(Debug)]
struct Entry<V> {
    pool: Box<str>,
    namespace: Box<str>,
    token: Box<str>,
    value: V,
    since: Instant,
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
}

impl<V> Entry<V> {
    fn name(&self) -> TokenName<'_> {
        TokenName {
            pool: &self.pool,
            namespace: &self.namespace,
            token: &self.token,
        }
    }
}

impl<V: Copy> TokenMemory<V> {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            inner: RwLock::new(Inner {
                by_hash: HashMap::new(),
                look_at: ENTRIES_MIN,
            }),
        }
    }

    /// What was said of this token, if that is not too long ago.
    pub(crate) fn get(&self, name: TokenName<'_>) -> Option<V> {
        self.get_at(name, Instant::now())
    }

    fn get_at(&self, name: TokenName<'_>, now: Instant) -> Option<V> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let entry = inner.by_hash.get(&self.hasher.hash_one(name))?;
        let counts = entry.name() == name && is_fresh(entry, now);
        counts.then_some(entry.value)
    }

    /// Remembers what was said just now.
    pub(crate) fn insert(&self, name: TokenName<'_>, value: V) {
        self.insert_at(name, value, Instant::now());
    }

    fn insert_at(&self, name: TokenName<'_>, value: V, now: Instant) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.by_hash.len() >= inner.look_at {
            inner.by_hash.retain(|_, entry| is_fresh(entry, now));
            inner.look_at = (inner.by_hash.len() * 2).clamp(ENTRIES_MIN, ENTRIES_MAX);
        }
        if inner.by_hash.len() >= ENTRIES_MAX {
            return;
        }
        let entry = Entry {
            pool: name.pool.into(),
            namespace: name.namespace.into(),
            token: name.token.into(),
            value,
            since: now,
        };
        inner.by_hash.insert(self.hasher.hash_one(name), entry);
    }

    /// Forgets what was said of this token.
    pub(crate) fn forget(&self, name: TokenName<'_>) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.by_hash.remove(&self.hasher.hash_one(name));
    }
}

fn is_fresh<V>(entry: &Entry<V>, now: Instant) -> bool {
    now.saturating_duration_since(entry.since) < REMEMBERED_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn name(token: &str) -> TokenName<'_> {
        TokenName {
            pool: "p",
            namespace: "n",
            token,
        }
    }

    #[test]
    fn what_was_said_is_known_for_a_second_or_until_it_is_forgotten() {
        let memory = TokenMemory::new();
        let now = Instant::now();
        memory.insert_at(name("a"), 1, now);
        memory.insert_at(name("b"), 2, now);
        let nearly = now + REMEMBERED_FOR - Duration::from_millis(1);
        assert_eq!(memory.get_at(name("a"), nearly), Some(1));
        assert_eq!(memory.get_at(name("a"), now + REMEMBERED_FOR), None);
        assert_eq!(memory.get_at(name("c"), now), None);
        memory.forget(name("a"));
        assert_eq!(memory.get_at(name("a"), now), None);
        assert_eq!(memory.get_at(name("b"), now), Some(2));
    }

    #[test]
    fn the_same_token_in_another_place_is_another_one() {
        let memory = TokenMemory::new();
        memory.insert(name("a"), 1);
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
    fn memory_is_bounded() {
        let memory = TokenMemory::new();
        let now = Instant::now();
        let insert = |count: usize, at| {
            for number in 0..count {
                memory.insert_at(name(&number.to_string()), number, at);
            }
            memory.inner.read().unwrap().by_hash.len()
        };
        assert_eq!(insert(ENTRIES_MAX + 10, now), ENTRIES_MAX);
        let later = now + REMEMBERED_FOR;
        memory.insert_at(name("new"), 0, later);
        assert_eq!(memory.inner.read().unwrap().by_hash.len(), 1);
        assert_eq!(memory.get_at(name("new"), later), Some(0));
    }
}
