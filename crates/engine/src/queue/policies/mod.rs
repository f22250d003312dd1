//! The policies of the queues of a Redis deployment, and the limits that queues share, as this process has read them.
//!
//! Changes in Redis are read once a second, and after each change by this process. While Redis is unavailable
//! the policies that were read last stay in effect. Before the first read every queue has the default policy.

mod known;
mod limits;
mod rates;

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::RwLock;
use tidegate_core::v1::Precondition;
use tidegate_core::{Namespace, NamespaceGrant, Policy, QueueKey, Rate};
use tidegate_store::{Damaged, Row, Store, StoreError, Table, TableRevision, TableSetOutcome};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep};

use crate::queue::change_attempts::{ChangeAttempts, VersionMismatch};
use crate::queue::table_reader::TableReader;
use known::KnownPolicies;
pub use limits::LimitRemoved;
pub(crate) use rates::DeliveryRules;
pub use rates::QueueRate;

/// The interval at which the whole table is read, which finds changes that bypass its revision, such as the changes of
/// an operator with `redis-cli`.
const WHOLE_INTERVAL: Duration = Duration::from_secs(300);

/// The longest time between two checks whether a pause has ended: the clock of Redis may be set meanwhile.
const PAUSE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Why a policy was not changed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyChangeError<E> {
    /// It has another revision than the expected one, or other clients change it all the time.
    #[error("the policy has been changed")]
    VersionMismatch,
    /// The stored policy is damaged, or of a later release.
    #[error("the stored policy cannot be read: {:?}", .0.text)]
    Unreadable(Damaged),
    /// The change is not valid.
    #[error("the change is not valid")]
    Rejected(E),
    /// The store failed. The policy may be changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<E> From<VersionMismatch> for PolicyChangeError<E> {
    fn from(_: VersionMismatch) -> Self {
        Self::VersionMismatch
    }
}

/// The policies of the queues of one Redis deployment.
#[derive(Debug)]
pub struct PolicyTable {
    policies: Table<Policy>,
    limits: Table<Rate>,
    known: RwLock<KnownPolicies>,
    /// Held during a read, so that an earlier answer does not replace a later one.
    whole_read_at: Mutex<Option<Instant>>,
    reader: TableReader,
    /// Notified when queues may be delivered from again, or another pause is the next one to end.
    changed: Notify,
}

impl PolicyTable {
    /// Creates a table that has not been read yet.
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            policies: store.policies(),
            limits: store.queue_limits(),
            known: RwLock::default(),
            whole_read_at: Mutex::default(),
            reader: TableReader::default(),
            changed: Notify::new(),
        }
    }

    /// Whether no jobs of a queue are delivered now.
    pub(crate) fn is_paused(&self, queue: &QueueKey) -> bool {
        self.known.read().is_paused(queue)
    }

    /// The policy of a queue as this process knows it.
    pub(crate) fn policy(&self, queue: &QueueKey) -> Policy {
        let known = self.known.read();
        known.policy(queue).cloned().unwrap_or_default()
    }

    /// Whether publishes to a queue are refused.
    pub(crate) fn is_closed(&self, queue: &QueueKey) -> bool {
        let known = self.known.read();
        known.policy(queue).is_some_and(|policy| policy.closed)
    }

    /// The number of jobs that a queue may hold; `None` = not limited.
    pub fn max_jobs(&self, queue: &QueueKey) -> Option<u64> {
        self.known.read().policy(queue)?.max_jobs
    }

    /// What the policy of a queue says about a round.
    pub(crate) fn delivery_rules(&self, queue: &QueueKey) -> DeliveryRules {
        self.known.read().delivery_rules(queue)
    }

    /// The rates that deliveries of a queue are subject to.
    pub(crate) fn rates(&self, queue: &QueueKey) -> Vec<QueueRate> {
        self.known.read().rates(queue)
    }

    /// The number of jobs of each group of a queue that may be leased at a time; `None` = not limited.
    pub fn group_max_running(&self, queue: &QueueKey) -> Option<u64> {
        self.known.read().policy(queue)?.groups.max_running
    }

    /// Up to `limit` queues of these namespaces with a stored policy, in their order, from the first one behind
    /// `after`.
    pub fn list(
        &self,
        namespaces: &NamespaceGrant,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Vec<(QueueKey, Row<Policy>)> {
        self.known.read().list(namespaces, after, limit)
    }

    /// How many policies a namespace has, in Redis.
    pub(crate) async fn count_of(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        self.policies.count_of(namespace).await
    }

    /// The policy of a queue, from Redis. It has revision 0 if none is stored.
    ///
    /// # Errors
    /// The store failed.
    pub async fn get(&self, queue: &QueueKey) -> Result<Row<Policy>, StoreError> {
        Ok(self.policies.get(queue).await?.unwrap_or_default())
    }

    /// Sets the policy of a queue, or removes it if it equals the defaults: here at once, in other processes within a
    /// second. With `expected`, only if that is the revision of the stored policy.
    ///
    /// # Errors
    /// The store failed. The policy may be set.
    pub async fn set(
        &self,
        queue: &QueueKey,
        policy: &Policy,
        expected: Option<TableRevision>,
    ) -> Result<TableSetOutcome, StoreError> {
        let outcome = self.policies.set(queue, Some(policy), expected).await?;
        self.read_after(outcome).await;
        Ok(outcome)
    }

    /// Reads what this process has changed.
    async fn read_after(&self, outcome: TableSetOutcome) {
        if let TableSetOutcome::Done(_) = outcome
            && self.read().await.is_err()
        {
            // The entry is set, and is read when Redis is available again.
            self.reader.request();
        }
    }

    /// Changes the stored policy of a queue with `merge`. If another client changes it meanwhile, it is read and merged
    /// again. With `expected`, only if that is the revision of the stored policy.
    ///
    /// # Errors
    /// See [`PolicyChangeError`].
    pub async fn change<E>(
        &self,
        queue: &QueueKey,
        expected: Option<TableRevision>,
        merge: impl Fn(Policy) -> Result<Policy, E>,
    ) -> Result<(Policy, TableRevision), PolicyChangeError<E>> {
        let condition = expected.map_or(Precondition::None, Precondition::Is);
        let mut attempts = ChangeAttempts::new(condition);
        loop {
            attempts.next().await?;
            let stored = self.get(queue).await?;
            let expected = attempts.expected(Some(&stored))?;
            let stored = stored.value.map_err(PolicyChangeError::Unreadable)?;
            let policy = merge(stored).map_err(PolicyChangeError::Rejected)?;
            let set = self.set(queue, &policy, expected).await?;
            if let TableSetOutcome::Done(revision) = set {
                return Ok((policy, revision));
            }
        }
    }

    /// Reads what has changed.
    ///
    /// # Errors
    /// The store failed. The known policies stay in effect.
    pub async fn read(&self) -> Result<(), StoreError> {
        let mut whole_read_at = self.whole_read_at.lock().await;
        let is_recent = whole_read_at.is_some_and(|at| at.elapsed() < WHOLE_INTERVAL);
        let last = self.known.read().last;
        let [policies, limits] = last.map(|last| last.filter(|_| is_recent));
        let (changes, limits) = tokio::try_join!(
            self.policies.changes_since(policies),
            self.limits.changes_since(limits)
        )?;
        if changes.as_ref().is_some_and(|changes| changes.is_all) {
            *whole_read_at = Some(Instant::now());
        }
        let needs_clock = changes.is_some() || self.known.read().has_pause_that_ends();
        let now_ms = match needs_clock {
            true => Some(self.policies.now_ms().await?),
            false => None,
        };
        let mut known = self.known.write();
        if let Some(now_ms) = now_ms {
            known.set_clock(now_ms);
        }
        let are_changed = limits.is_some();
        if let Some(limits) = limits {
            known.apply_limits(limits);
        }
        if let Some(changes) = changes {
            known.apply(changes);
        }
        drop(known);
        // The pauses of this process end by the new time.
        if now_ms.is_some() || are_changed {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Keeps the table current. Never returns.
    pub(crate) async fn follow(&self) {
        loop {
            let read = self.read().await;
            self.reader.wait(read).await;
        }
    }

    /// Waits until the pause of queues has ended, their limit of running jobs was raised or their rate was changed, and
    /// returns these queues.
    pub(crate) async fn unblocked(&self) -> BTreeSet<QueueKey> {
        loop {
            let (queues, next_end) = self.known.write().take_unblocked();
            if !queues.is_empty() {
                return queues;
            }
            match next_end {
                Some(wait) => {
                    tokio::select! {
                        () = self.changed.notified() => {}
                        () = sleep(wait.min(PAUSE_CHECK_INTERVAL)) => {}
                    }
                }
                None => self.changed.notified().await,
            }
        }
    }
}
