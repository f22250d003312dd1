//! The limits on waiting consumers, in this process and for each credential, and the credentials that they wait with.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::Namespace;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::access::credential::Credential;
use crate::error::EngineError;

/// Counts the waiting consumers.
#[derive(Debug)]
pub struct WaitLimits {
    in_process_max: usize,
    per_token_max: usize,
    seats_per_token_max: usize,
    taken: Arc<Mutex<WaiterCounts>>,
}

#[derive(Debug, Default)]
struct WaiterCounts {
    all: usize,
    by_namespace: HashMap<Namespace, usize>,
    by_credential: HashMap<Credential, CredentialWaiters>,
}

/// The consumers that wait with one credential.
#[derive(Debug, Default)]
struct CredentialWaiters {
    consumers: usize,
    /// Their seats: each consumer has a seat in every queue that it names.
    seats: usize,
    /// When the credential expires, if it does.
    ends_at: Option<Instant>,
    /// Cancelled when the credential is revoked or has expired.
    revoked: CancellationToken,
}

/// The permission for one consumer to wait. Dropping it allows another one.
#[derive(Debug)]
pub struct WaitPermit {
    taken: Arc<Mutex<WaiterCounts>>,
    namespace: Option<Namespace>,
    credential: Credential,
    seats: usize,
    revoked: CancellationToken,
}

impl WaitLimits {
    /// Creates room for `in_process_max` consumers, of which each credential may use `per_token_max`, with
    /// `seats_per_token_max` seats.
    pub fn new(in_process_max: usize, per_token_max: usize, seats_per_token_max: usize) -> Self {
        Self {
            in_process_max,
            per_token_max,
            seats_per_token_max,
            taken: Arc::default(),
        }
    }

    /// Counts one more consumer that waits in `seats` queues with this credential, which expires at `ends_at`. `within`
    /// is its namespace and how many may wait there.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn take(
        &self,
        within: Option<(&Namespace, u64)>,
        credential: impl Into<Credential>,
        ends_at: Option<Instant>,
        seats: usize,
    ) -> Result<WaitPermit, EngineError> {
        let credential = credential.into();
        let mut taken = self.taken.lock();
        if taken.all >= self.in_process_max {
            return Err(EngineError::TooManyWaiting);
        }
        if let Some((namespace, max)) = within {
            let waiting = taken.by_namespace.get(namespace).copied();
            if waiting.unwrap_or_default() as u64 >= max {
                return Err(EngineError::TooManyWaitingInNamespace(max));
            }
        }
        // All consumers of a token share one copy of its text.
        let known = taken.by_credential.get_key_value(&credential);
        let credential = known.map_or(credential, |(known, _)| known.clone());
        let waiters = taken.by_credential.entry(credential.clone()).or_default();
        let is_alone = waiters.consumers == 0;
        if waiters.consumers >= self.per_token_max
            || waiters.seats + seats > self.seats_per_token_max && !is_alone
        {
            return Err(EngineError::TooManyWaitingWithToken);
        }
        waiters.consumers += 1;
        waiters.seats += seats;
        waiters.ends_at = ends_at;
        let revoked = waiters.revoked.clone();
        taken.all += 1;
        let namespace = within.map(|(namespace, _)| namespace.clone());
        if let Some(namespace) = &namespace {
            *taken.by_namespace.entry(namespace.clone()).or_default() += 1;
        }
        Ok(WaitPermit {
            taken: Arc::clone(&self.taken),
            namespace,
            credential,
            seats,
            revoked,
        })
    }

    /// The number of waiting consumers of a namespace.
    pub(crate) fn of_namespace(&self, namespace: &Namespace) -> usize {
        let taken = self.taken.lock();
        taken.by_namespace.get(namespace).copied().unwrap_or(0)
    }

    /// The credentials of the waiting consumers, each once.
    pub fn credentials(&self) -> Vec<Credential> {
        self.taken.lock().by_credential.keys().cloned().collect()
    }

    /// The credentials of the waiting consumers that have expired at this time.
    pub(crate) fn expired(&self, now: Instant) -> Vec<Credential> {
        let taken = self.taken.lock();
        let all = taken.by_credential.iter();
        let expired = all.filter(|(_, waiters)| waiters.ends_at.is_some_and(|end| end <= now));
        expired.map(|(credential, _)| credential.clone()).collect()
    }

    /// Ends the waits of all consumers with this credential, and returns how many there are. Later consumers are not
    /// affected, as the token may have been created again.
    pub fn revoke(&self, credential: &Credential) -> usize {
        let mut taken = self.taken.lock();
        let Some(waiters) = taken.by_credential.get_mut(credential) else {
            return 0;
        };
        std::mem::take(&mut waiters.revoked).cancel();
        waiters.consumers
    }
}

impl WaitPermit {
    /// Waits until the credential is revoked or has expired.
    pub async fn revoked(&self) {
        self.revoked.cancelled().await;
    }
}

impl Drop for WaitPermit {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all -= 1;
        if let Some(namespace) = &self.namespace
            && let Some(waiting) = taken.by_namespace.get_mut(namespace)
        {
            *waiting -= 1;
            if *waiting == 0 {
                taken.by_namespace.remove(namespace);
            }
        }
        if let Some(waiters) = taken.by_credential.get_mut(&self.credential) {
            waiters.consumers -= 1;
            waiters.seats -= self.seats;
            if waiters.consumers == 0 {
                taken.by_credential.remove(&self.credential);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tidegate_core::ApiKeyId;
    use tidegate_store::LimitHolder;

    use super::*;

    fn token(name: &str) -> Credential {
        LimitHolder::new("default", "ns", name).into()
    }

    #[test]
    fn waiting_consumers_are_limited_in_all_and_for_each_token() {
        let room = WaitLimits::new(3, 2, 100);
        let first = room.take(None, token("a"), None, 1).unwrap();
        let _second = room.take(None, token("a"), None, 1).unwrap();
        assert_eq!(
            room.take(None, token("a"), None, 1).unwrap_err(),
            EngineError::TooManyWaitingWithToken
        );
        let third = room.take(None, token("b"), None, 1).unwrap();
        assert_eq!(
            room.take(None, token("c"), None, 1).unwrap_err(),
            EngineError::TooManyWaiting
        );
        drop(third);
        assert_eq!(room.credentials().len(), 1);
        drop(first);
        room.take(None, token("a"), None, 1).unwrap();
    }

    #[test]
    fn waiting_consumers_are_limited_for_each_namespace() {
        let room = WaitLimits::new(9, 9, 100);
        let [one, other] = ["one", "other"].map(|name| Namespace::try_from(name).unwrap());
        let first = room.take(Some((&one, 2)), token("a"), None, 1).unwrap();
        let _second = room.take(Some((&one, 2)), token("b"), None, 1).unwrap();
        assert_eq!(
            room.take(Some((&one, 2)), token("c"), None, 1).unwrap_err(),
            EngineError::TooManyWaitingInNamespace(2)
        );
        let _other = room.take(Some((&other, 2)), token("c"), None, 1).unwrap();
        assert_eq!(room.of_namespace(&one), 2);
        drop(first);
        let _third = room.take(Some((&one, 2)), token("c"), None, 1).unwrap();
        assert_eq!(room.of_namespace(&other), 1);
    }

    #[test]
    fn the_seats_of_each_token_are_limited_and_one_consumer_is_always_accepted() {
        let room = WaitLimits::new(9, 9, 5);
        let first = room.take(None, token("a"), None, 6).unwrap();
        assert_eq!(
            room.take(None, token("a"), None, 1).unwrap_err(),
            EngineError::TooManyWaitingWithToken
        );
        let _other = room.take(None, token("b"), None, 3).unwrap();
        drop(first);
        let _second = room.take(None, token("a"), None, 3).unwrap();
        assert!(room.take(None, token("a"), None, 3).is_err());
        room.take(None, token("a"), None, 2).unwrap();
    }

    #[test]
    fn tokens_of_other_pools_and_namespaces_are_other_tokens() {
        let room = WaitLimits::new(3, 1, 100);
        let _default = room.take(None, token("a"), None, 1).unwrap();
        let _in_pool = room
            .take(None, LimitHolder::new("p", "ns", "a"), None, 1)
            .unwrap();
        let _in_namespace = room.take(None, LimitHolder::new("default", "other", "a"), None, 1);
        assert_eq!(room.credentials().len(), 3);
    }

    #[test]
    fn a_revocation_ends_the_current_waits_of_its_token_only() {
        let room = WaitLimits::new(10, 10, 100);
        let waits = ["a", "a", "b"].map(|name| room.take(None, token(name), None, 1).unwrap());
        assert_eq!(room.revoke(&token("a")), 2);
        assert_eq!(room.revoke(&token("c")), 0);
        let ended = waits
            .each_ref()
            .map(|wait| wait.revoked().now_or_never().is_some());
        assert_eq!(ended, [true, true, false]);
        let later = room.take(None, token("a"), None, 1).unwrap();
        assert_eq!(later.revoked().now_or_never(), None);
        drop(waits);
        assert_eq!(room.credentials(), [token("a")]);
    }

    #[test]
    fn waits_end_at_the_expiry_of_their_key() {
        let room = WaitLimits::new(10, 10, 100);
        let (short, long) = ["SHORT0000000", "LONG00000000"]
            .map(|id| ApiKeyId::try_from(id).unwrap())
            .into();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let ending = room.take(None, short, Some(after(1)), 1).unwrap();
        let lasting = room.take(None, long, Some(after(9)), 1).unwrap();
        let _token = room.take(None, token("a"), None, 1).unwrap();
        assert_eq!(room.expired(now), []);
        assert_eq!(room.expired(after(1)), [short.into()]);
        assert_eq!(room.revoke(&short.into()), 1);
        assert!(ending.revoked().now_or_never().is_some());
        assert!(lasting.revoked().now_or_never().is_none());
        drop(ending);
        assert_eq!(room.expired(after(1)), []);
    }
}
