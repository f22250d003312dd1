//! How many consumers may wait: in this process, and with one token.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::Namespace;

/// There is no room for one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// As many wait in this process as may.
    InProcess,
    /// As many wait with this token as may.
    ForToken,
}

/// Stands for a token of a namespace. Two tokens share one by chance only, and then share their room;
/// a waiting consumer need not keep the whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TokenKey(u64);

/// The room for waiting consumers.
#[derive(Debug)]
pub(crate) struct Room {
    in_process_max: usize,
    per_token_max: usize,
    hasher: RandomState,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_token: HashMap<TokenKey, usize>,
}

/// Room for one consumer; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct OwnRoom {
    taken: Arc<Mutex<Taken>>,
    token: TokenKey,
}

impl Room {
    pub(crate) fn new(in_process_max: usize, per_token_max: usize) -> Self {
        Self {
            in_process_max,
            per_token_max,
            hasher: RandomState::new(),
            taken: Arc::default(),
        }
    }

    /// The key of a token in a namespace of a pool.
    pub(crate) fn key(&self, pool: &str, namespace: &Namespace, token: &str) -> TokenKey {
        TokenKey(self.hasher.hash_one((pool, namespace.as_str(), token)))
    }

    /// Takes room for one consumer with this token.
    pub(crate) fn take(&self, token: TokenKey) -> Result<OwnRoom, NoRoom> {
        let mut taken = lock(&self.taken);
        if taken.all >= self.in_process_max {
            return Err(NoRoom::InProcess);
        }
        let of_token = taken.by_token.entry(token).or_default();
        if *of_token >= self.per_token_max {
            return Err(NoRoom::ForToken);
        }
        *of_token += 1;
        taken.all += 1;
        Ok(OwnRoom {
            taken: Arc::clone(&self.taken),
            token,
        })
    }
}

impl Drop for OwnRoom {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.all -= 1;
        if let Some(of_token) = taken.by_token.get_mut(&self.token) {
            *of_token -= 1;
            if *of_token == 0 {
                taken.by_token.remove(&self.token);
            }
        }
    }
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_for_all_and_for_each_token_and_comes_back() {
        let room = Room::new(3, 2);
        let namespace = Namespace::try_from("ns").unwrap();
        let key = |token| room.key("default", &namespace, token);
        let first = room.take(key("a")).unwrap();
        let _second = room.take(key("a")).unwrap();
        assert_eq!(room.take(key("a")).unwrap_err(), NoRoom::ForToken);
        let third = room.take(key("b")).unwrap();
        assert_eq!(room.take(key("c")).unwrap_err(), NoRoom::InProcess);
        drop(third);
        assert_eq!(lock(&room.taken).by_token.len(), 1);
        drop(first);
        room.take(key("a")).unwrap();
    }

    #[test]
    fn the_same_token_in_another_place_is_another_one() {
        let room = Room::new(3, 2);
        let [ns, other] = ["ns", "other"].map(|name| Namespace::try_from(name).unwrap());
        assert_eq!(room.key("p", &ns, "t"), room.key("p", &ns, "t"));
        assert_ne!(room.key("p", &ns, "t"), room.key("q", &ns, "t"));
        assert_ne!(room.key("p", &ns, "t"), room.key("p", &other, "t"));
    }
}
