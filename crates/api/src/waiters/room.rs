//! How many consumers may wait: in this process, and with one token. Which tokens they wait with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_store::LimitHolder;
use tokio_util::sync::CancellationToken;

/// There is no room for one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// As many wait in this process as may.
    InProcess,
    /// As many wait with this token as may.
    ForToken,
}

/// The room for waiting consumers.
#[derive(Debug)]
pub(crate) struct Room {
    in_process_max: usize,
    per_token_max: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_token: HashMap<Arc<LimitHolder>, OfToken>,
}

/// The consumers that wait with one token.
#[derive(Debug, Default)]
struct OfToken {
    consumers: usize,
    /// Cancelled when the token is revoked.
    revoked: CancellationToken,
}

/// Room for one consumer; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct OwnRoom {
    taken: Arc<Mutex<Taken>>,
    token: Arc<LimitHolder>,
    revoked: CancellationToken,
}

impl Room {
    pub(crate) fn new(in_process_max: usize, per_token_max: usize) -> Self {
        Self {
            in_process_max,
            per_token_max,
            taken: Arc::default(),
        }
    }

    /// Takes room for one consumer with this token.
    pub(crate) fn take(&self, token: LimitHolder) -> Result<OwnRoom, NoRoom> {
        let mut taken = lock(&self.taken);
        if taken.all >= self.in_process_max {
            return Err(NoRoom::InProcess);
        }
        // All consumers of a token share its text.
        let known = taken.by_token.get_key_value(&token);
        let token = known.map_or_else(|| Arc::new(token), |(known, _)| Arc::clone(known));
        let of_token = taken.by_token.entry(Arc::clone(&token)).or_default();
        if of_token.consumers >= self.per_token_max {
            return Err(NoRoom::ForToken);
        }
        of_token.consumers += 1;
        let revoked = of_token.revoked.clone();
        taken.all += 1;
        Ok(OwnRoom {
            taken: Arc::clone(&self.taken),
            token,
            revoked,
        })
    }

    /// The tokens that consumers wait with, each once.
    pub(crate) fn tokens(&self) -> Vec<Arc<LimitHolder>> {
        lock(&self.taken).by_token.keys().cloned().collect()
    }

    /// Ends the waits of all consumers with this token, and returns how many there are. Consumers that come
    /// later are not affected: the token may have been created again.
    pub(crate) fn revoke(&self, token: &LimitHolder) -> usize {
        let mut taken = lock(&self.taken);
        let Some(of_token) = taken.by_token.get_mut(token) else {
            return 0;
        };
        std::mem::take(&mut of_token.revoked).cancel();
        of_token.consumers
    }
}

impl OwnRoom {
    /// Waits until the token is revoked.
    pub(crate) async fn revoked(&self) {
        self.revoked.cancelled().await;
    }
}

impl Drop for OwnRoom {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.all -= 1;
        if let Some(of_token) = taken.by_token.get_mut(&self.token) {
            of_token.consumers -= 1;
            if of_token.consumers == 0 {
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
    use futures_util::FutureExt;

    use super::*;

    fn token(name: &str) -> LimitHolder {
        LimitHolder::new("default", "ns", name)
    }

    #[test]
    fn room_is_bounded_for_all_and_for_each_token_and_comes_back() {
        let room = Room::new(3, 2);
        let first = room.take(token("a")).unwrap();
        let _second = room.take(token("a")).unwrap();
        assert_eq!(room.take(token("a")).unwrap_err(), NoRoom::ForToken);
        let third = room.take(token("b")).unwrap();
        assert_eq!(room.take(token("c")).unwrap_err(), NoRoom::InProcess);
        drop(third);
        assert_eq!(room.tokens().len(), 1);
        drop(first);
        room.take(token("a")).unwrap();
    }

    #[test]
    fn the_same_token_in_another_place_is_another_one() {
        let room = Room::new(3, 1);
        let _default = room.take(token("a")).unwrap();
        let _in_pool = room.take(LimitHolder::new("p", "ns", "a")).unwrap();
        let _in_namespace = room.take(LimitHolder::new("default", "other", "a"));
        assert_eq!(room.tokens().len(), 3);
    }

    #[test]
    fn a_revocation_ends_the_waits_of_its_token_and_no_later_ones() {
        let room = Room::new(10, 10);
        let waits = ["a", "a", "b"].map(|name| room.take(token(name)).unwrap());
        assert_eq!(room.revoke(&token("a")), 2);
        assert_eq!(room.revoke(&token("c")), 0);
        let ended = waits
            .each_ref()
            .map(|wait| wait.revoked().now_or_never().is_some());
        assert_eq!(ended, [true, true, false]);
        let later = room.take(token("a")).unwrap();
        assert_eq!(later.revoked().now_or_never(), None);
        drop(waits);
        assert_eq!(room.tokens(), [Arc::new(token("a"))]);
    }
}
