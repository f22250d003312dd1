//! Group commit: requests for a queue that arrive while a call for it is in flight wait in its batch queue, and share
//! the next call.
//!
//! ```text
//!  request ──► batch queue of A ──► serve loop of A ──► one call, up to 64 jobs ──► Redis
//!  request ──►        ┊                  ▲                      │
//!  request ──►        ┊                  └── the next batch ◄───┘ outcomes, in order
//! ```
//!
//! There is no timer: a single request is sent at once. Under load a call carries the requests that arrived during the
//! call before it, and the requests that the runtime finds when it looks for more; 64 jobs in one call cost Redis a
//! third of their cost in 64 calls. Queues do not wait for each other.
//!
//! **Cancelled requests.** A request whose client has left, or whose time limit has passed, leaves its batch queue at
//! once. A request that is in a call cannot be cancelled: the call completes, as it may have been sent to Redis.
//!
//! **Lanes.** A queue with several lanes has one batch queue, and its batches go to the lanes round-robin. A batch
//! queue for each lane would divide the size of the batches by the number of lanes. Several calls of a batch queue are
//! in flight, each in a different lane, if a full batch has gathered, or if a call takes long.

mod batch_queue;
pub(crate) mod items;
mod verbs;

use std::hash::Hash;
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;
use tidegate_store::{StoreError, Unavailable};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::publish::size::PublishSize;
use crate::queue::serve_loop::{LaneCall, Role, ServedQueue, spawn_serve_loop};
use batch_queue::BatchQueue;

/// A verb whose calls carry several items.
pub(crate) trait Verb: Send + Sync + 'static {
    /// The context of the calls besides the items: the pool.
    type Context: Send + Sync + 'static;
    /// The key of a batch queue: items with the same key can share a call.
    type BatchKey: Clone + Eq + Hash + Send + Sync + 'static;
    /// The item that one request adds to a batch.
    type BatchItem: Send + 'static;
    /// The result for one item.
    type ItemOutcome: Send + 'static;

    /// The size of an item: by default one job, without regard to its bytes.
    fn size(_item: &Self::BatchItem) -> PublishSize {
        PublishSize { jobs: 1, bytes: 0 }
    }

    /// The number of lanes, at least 1. At most one call is in flight in each.
    fn lanes(_context: &Self::Context, _key: &Self::BatchKey) -> u16 {
        1
    }

    /// Executes the items, all or none, and returns their outcomes in the same order.
    ///
    /// # Errors
    /// The call failed. It may have been executed.
    fn call(
        context: &Self::Context,
        key: &Self::BatchKey,
        lane: u16,
        items: Vec<Self::BatchItem>,
    ) -> impl Future<Output = Result<Vec<Self::ItemOutcome>, StoreError>> + Send;
}

/// The batch queues of one verb on one pool.
#[derive(Debug)]
pub(crate) struct Batcher<V: Verb>(Arc<BatcherInner<V>>);

struct BatcherInner<V: Verb> {
    /// Runs the serve loops, whose calls do not depend on the thread of a connection.
    runtime: Handle,
    queues: Mutex<BatchQueues<V>>,
}

struct BatchQueues<V: Verb> {
    /// Has a queue while items wait in it, or calls for it are in flight.
    by_key: HashMap<V::BatchKey, BatchQueue<PendingItem<V>>>,
    /// Shared by all batch queues: a queue can be removed and created again while a request of the removed queue is
    /// pending.
    next_ticket: u64,
}

/// A request that waits for its outcome. Dropping it removes the item from the batch queue, unless a call has taken it.
struct SubmitGuard<'a, V: Verb> {
    inner: &'a BatcherInner<V>,
    key: &'a V::BatchKey,
    /// `None` = the outcome is known.
    ticket: Option<u64>,
}

impl<V: Verb> Drop for SubmitGuard<'_, V> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.inner.cancel_item(self.key, ticket);
        }
    }
}

struct PendingItem<V: Verb> {
    item: V::BatchItem,
    outcome: oneshot::Sender<Result<V::ItemOutcome, StoreError>>,
}

impl<V: Verb> std::fmt::Debug for BatcherInner<V> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Batcher").finish_non_exhaustive()
    }
}

impl<V: Verb> Batcher<V> {
    /// Must be called inside a runtime.
    pub(crate) fn new() -> Self {
        let batch_queues = Mutex::new(BatchQueues {
            by_key: HashMap::default(),
            next_ticket: 0,
        });
        Self(Arc::new(BatcherInner {
            runtime: Handle::current(),
            queues: batch_queues,
        }))
    }

    /// Executes an item, together with others. Dropping the future cancels it, unless it is in a call already: then it
    /// may be executed.
    ///
    /// # Errors
    /// The call that carried the item failed. It may have been executed.
    pub(crate) async fn submit(
        &self,
        context: &Arc<V::Context>,
        key: &V::BatchKey,
        item: V::BatchItem,
    ) -> Result<V::ItemOutcome, StoreError> {
        let (sender, outcome) = oneshot::channel();
        let size = V::size(&item);
        let waiting = PendingItem {
            item,
            outcome: sender,
        };
        let (ticket, role) = self.0.push_item(V::lanes(context, key), key, waiting, size);
        let mut submitted = SubmitGuard {
            inner: &self.0,
            key,
            ticket: Some(ticket),
        };
        if let Some(role) = role {
            let batches = Batches {
                inner: Arc::clone(&self.0),
                context: Arc::clone(context),
                key: key.clone(),
            };
            spawn_serve_loop(Arc::new(batches), role);
        }
        let outcome = outcome.await;
        submitted.ticket = None;
        outcome.unwrap_or_else(|_| Err(task_ended()))
    }
}

impl<V: Verb> BatcherInner<V> {
    /// Adds an item at the end of its batch queue. Returns its ticket, and the role of the serve loop that the caller
    /// must start, if any.
    fn push_item(
        &self,
        lanes: u16,
        key: &V::BatchKey,
        waiting: PendingItem<V>,
        size: PublishSize,
    ) -> (u64, Option<Role>) {
        let mut batch_queues = self.queues.lock();
        let ticket = batch_queues.next_ticket;
        batch_queues.next_ticket += 1;
        // Under load the batch queue exists, and the key need not be cloned.
        if let Some(queue) = batch_queues.by_key.get_mut(key) {
            queue.push(ticket, waiting, size);
            return (ticket, queue.start(lanes));
        }
        let queue = batch_queues.by_key.entry(key.clone()).or_default();
        queue.push(ticket, waiting, size);
        (ticket, queue.start(lanes))
    }

    /// Removes an item from its batch queue. The queue stays, as a serve loop is starting or has a call in flight.
    fn cancel_item(&self, key: &V::BatchKey, ticket: u64) {
        let mut batch_queues = self.queues.lock();
        let queue = batch_queues.by_key.get_mut(key);
        let left = queue.and_then(|queue| queue.remove(ticket));
        drop(batch_queues);
        drop(left);
    }
}

/// The batch queue of one key.
struct Batches<V: Verb> {
    inner: Arc<BatcherInner<V>>,
    context: Arc<V::Context>,
    key: V::BatchKey,
}

impl<V: Verb> Batches<V> {
    /// The next batch, as `next` chooses it. The queue is removed if there is none and no call is in flight.
    fn next_batch(
        &self,
        next: impl FnOnce(&mut BatchQueue<PendingItem<V>>, u16) -> Next<V>,
    ) -> Next<V> {
        let lanes = self.lanes();
        let mut batch_queues = self.inner.queues.lock();
        let queue = batch_queues.by_key.get_mut(&self.key)?;
        let batch = next(queue, lanes);
        if batch.is_none() && queue.is_idle() {
            batch_queues.by_key.remove(&self.key);
        }
        batch
    }
}

type Next<V> = Option<LaneCall<Vec<PendingItem<V>>>>;

impl<V: Verb> ServedQueue for Batches<V> {
    type Work = Vec<PendingItem<V>>;

    fn lanes(&self) -> u16 {
        V::lanes(&self.context, &self.key)
    }

    fn gathered(&self) -> Option<usize> {
        let batch_queues = self.inner.queues.lock();
        batch_queues.by_key.get(&self.key)?.gathered()
    }

    fn first(&self, role: Role) -> Next<V> {
        self.next_batch(|queue, lanes| queue.first_batch(role, lanes))
    }

    fn next(&self, role: Role, lane: u16) -> Next<V> {
        self.next_batch(|queue, lanes| queue.next_batch(role, lane, lanes))
    }

    /// Makes one call and sends each request its outcome.
    async fn call(&self, lane: u16, batch: Vec<PendingItem<V>>) {
        let pairs = batch
            .into_iter()
            .map(|waiting| (waiting.item, waiting.outcome));
        let (items, callers): (Vec<_>, Vec<_>) = pairs.unzip();
        // Sending fails if the request was cancelled during the call.
        match V::call(&self.context, &self.key, lane, items).await {
            Ok(outcomes) => {
                for (caller, outcome) in callers.into_iter().zip(outcomes) {
                    let _ = caller.send(Ok(outcome));
                }
            }
            Err(error) => {
                for caller in callers {
                    let _ = caller.send(Err(error.clone()));
                }
            }
        }
    }

    fn release_lead(&self) -> Option<Role> {
        let lanes = self.lanes();
        let mut batch_queues = self.inner.queues.lock();
        let queue = batch_queues.by_key.get_mut(&self.key)?;
        queue.release_lead();
        queue.start(lanes)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.runtime.spawn(task);
    }

    /// Removing the queue drops the senders of its requests, which fail.
    fn abort(&self) {
        self.inner.queues.lock().by_key.remove(&self.key);
    }
}

fn task_ended() -> StoreError {
    StoreError::Unavailable {
        reason: Unavailable::Unreachable,
        detail: "the task that made the call ended without an outcome".to_owned(),
    }
}
