//! The limits on waiting consumers, in this process and for each token, and the tokens that they wait with.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_store::LimitHolder;
use tokio_util::sync::CancellationToken;

use crate::error::EngineError;

/// Counts the waiting consumers.
#[derive(Debug)]
pub struct WaitLimits {
    in_process_max: usize,
    per_token_max: usize,
    taken: Arc<Mutex<WaiterCounts>>,
}

#[derive(Debug, Default)]
struct WaiterCounts {
    all: usize,
    by_token: HashMap<Arc<LimitHolder>, TokenWaiters>,
}

/// The consumers that wait with one token.
#[derive(Debug, Default)]
struct TokenWaiters {
    consumers: usize,
    /// Cancelled when the token is revoked.
    revoked: CancellationToken,
}

/// The permission for one consumer to wait. Dropping it allows another one.
#[derive(Debug)]
pub struct WaitPermit {
    taken: Arc<Mutex<WaiterCounts>>,
    token: Arc<LimitHolder>,
    revoked: CancellationToken,
}

impl WaitLimits {
    /// Creates room for `in_process_max` consumers, of which each token may use `per_token_max`.
    pub fn new(in_process_max: usize, per_token_max: usize) -> Self {
        Self {
            in_process_max,
            per_token_max,
            taken: Arc::default(),
        }
    }

    /// Counts one more consumer that waits with this token.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn take(&self, token: LimitHolder) -> Result<WaitPermit, EngineError> {
        let mut taken = self.taken.lock();
        if taken.all >= self.in_process_max {
            return Err(EngineError::TooManyWaiting);
        }
        // All consumers of a token share one copy of its text.
        let known = taken.by_token.get_key_value(&token);
        let token = known.map_or_else(|| Arc::new(token), |(known, _)| Arc::clone(known));
        let of_token = taken.by_token.entry(Arc::clone(&token)).or_default();
        if of_token.consumers >= self.per_token_max {
            return Err(EngineError::TooManyWaitingWithToken);
        }
        of_token.consumers += 1;
        let revoked = of_token.revoked.clone();
        taken.all += 1;
        Ok(WaitPermit {
            taken: Arc::clone(&self.taken),
            token,
            revoked,
        })
    }

    /// The tokens of the waiting consumers, each once.
    pub fn tokens(&self) -> Vec<Arc<LimitHolder>> {
        self.taken.lock().by_token.keys().cloned().collect()
    }

    /// Ends the waits of all consumers with this token, and returns how many there are. Later consumers are not
    /// affected, as the token may have been created again.
    pub fn revoke(&self, token: &LimitHolder) -> usize {
        let mut taken = self.taken.lock();
        let Some(of_token) = taken.by_token.get_mut(token) else {
            return 0;
        };
        std::mem::take(&mut of_token.revoked).cancel();
        of_token.consumers
    }
}

impl WaitPermit {
    /// Waits until the token is revoked.
    pub async fn revoked(&self) {
        self.revoked.cancelled().await;
    }
}

impl Drop for WaitPermit {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all -= 1;
        if let Some(of_token) = taken.by_token.get_mut(&self.token) {
            of_token.consumers -= 1;
            if of_token.consumers == 0 {
                taken.by_token.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn token(name: &str) -> LimitHolder {
        LimitHolder::new("default", "ns", name)
    }

    #[test]
    fn waiting_consumers_are_limited_in_all_and_for_each_token() {
        let room = WaitLimits::new(3, 2);
        let first = room.take(token("a")).unwrap();
        let _second = room.take(token("a")).unwrap();
        assert_eq!(
            room.take(token("a")).unwrap_err(),
            EngineError::TooManyWaitingWithToken
        );
        let third = room.take(token("b")).unwrap();
        assert_eq!(
            room.take(token("c")).unwrap_err(),
            EngineError::TooManyWaiting
        );
        drop(third);
        assert_eq!(room.tokens().len(), 1);
        drop(first);
        room.take(token("a")).unwrap();
    }

    #[test]
    fn tokens_of_other_pools_and_namespaces_are_other_tokens() {
        let room = WaitLimits::new(3, 1);
        let _default = room.take(token("a")).unwrap();
        let _in_pool = room.take(LimitHolder::new("p", "ns", "a")).unwrap();
        let _in_namespace = room.take(LimitHolder::new("default", "other", "a"));
        assert_eq!(room.tokens().len(), 3);
    }

    #[test]
    fn a_revocation_ends_the_current_waits_of_its_token_only() {
        let room = WaitLimits::new(10, 10);
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
