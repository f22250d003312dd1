//! Waits until writes are on replicas or on disk, for many publishes at a time.
//!
//! ```text
//!  publish ─► script, on the shared connection ─► reply ─┐
//!  publish ─► script, on the shared connection ─► reply ─┤  are collected
//!                                                        ▼
//!                    separate connection: barrier ─► WAIT or WAITAOF ─► all of them are confirmed
//! ```
//!
//! `WAIT` blocks its connection and waits for the writes of this connection. So it cannot be sent on the shared
//! connection, nor alone on another one. But a server has one stream of writes: a replica or disk that has a write has
//! all earlier writes too. So a barrier, which is a write behind the publishes, and a wait for it confirm all of these
//! publishes. `docs/decisions/0021-durability.md` describes the alternatives.

mod barrier_connection;
mod history;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Client, RedisResult};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{sleep_until, timeout_at};

use super::connection::RedisConnection;
use super::waits::Timeouts;
use crate::durability::DurabilityError;
use barrier_connection::{BarrierConnection, BarrierWaiter};
use history::ReplicationHistory;
use tidegate_core::Durability;

/// Maximum number of barriers of one durability in flight at a server, each on a separate connection.
const CARRIERS: usize = 4;
/// While one barrier is in flight, the next one begins after this time, unless the first one ends before. With each
/// further barrier in flight the time is [`GAP_GROWTH`] times longer. All four begin within 0.7 s, so that they are
/// spread over the second between two fsyncs with `appendfsync everysec`.
const GAP: Duration = Duration::from_millis(20);
const GAP_GROWTH: u32 = 5;
/// How much longer than its timeout a caller waits for the reply of the server that the time is over.
const GRACE: Duration = Duration::from_millis(200);

/// The barriers at one server.
pub(crate) struct Barriers {
    client: Client,
    /// The runtime of the connections and of the tasks, whichever runtime a publish comes from.
    runtime: Handle,
    waits: Timeouts,
    pub(crate) history: Arc<ReplicationHistory>,
    /// Permit for reading the history in a task.
    history_permits: Arc<Semaphore>,
    /// Senders to the tasks that collect publishes, by durability.
    queues: Mutex<HashMap<Durability, mpsc::UnboundedSender<BarrierWaiter>>>,
    /// Set when a barrier reached a replica.
    is_misled: Arc<AtomicBool>,
}

impl Barriers {
    pub(super) fn new(client: Client, waits: Timeouts, is_misled: Arc<AtomicBool>) -> Self {
        Self {
            client,
            runtime: Handle::current(),
            waits,
            history: Arc::default(),
            history_permits: Arc::new(Semaphore::new(1)),
            queues: Mutex::default(),
            is_misled,
        }
    }

    /// Whether the history is known, so that publishes from now on can be confirmed.
    pub(crate) fn is_ready(&self) -> bool {
        self.history.is_known()
    }

    /// A permit to read the history in a task; `None` if it is known, or another task is reading it.
    pub(crate) fn history_permit(&self) -> Option<OwnedSemaphorePermit> {
        match self.is_ready() {
            true => None,
            false => Arc::clone(&self.history_permits).try_acquire_owned().ok(),
        }
    }

    /// Waits for the writes of a call that was sent at `sent_at`; `key` is the barrier key of its bucket.
    pub(crate) async fn wait(
        &self,
        sent_at: Instant,
        key: String,
        wanted: Durability,
        timeout: Duration,
    ) -> Result<(), DurabilityError> {
        let (sender, outcome) = oneshot::channel();
        let deadline = Instant::now() + timeout;
        let caller = BarrierWaiter {
            sent_at,
            key,
            deadline,
            outcome: sender,
        };
        let not_durable = |reason: String| DurabilityError {
            wanted,
            reached: Durability::MEMORY,
            reason,
        };
        self.enqueue(wanted, caller)
            .map_err(|error| not_durable(error.to_string()))?;
        match timeout_at((deadline + GRACE).into(), outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(not_durable("the task that waits has ended".to_owned())),
            Err(_) => Err(not_durable(format!("no confirmation within {timeout:?}"))),
        }
    }

    fn enqueue(&self, wanted: Durability, caller: BarrierWaiter) -> RedisResult<()> {
        let mut gatherings = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let caller = match gatherings.get(&wanted) {
            None => caller,
            Some(gathering) => match gathering.send(caller) {
                Ok(()) => return Ok(()),
                // The task has panicked.
                Err(mpsc::error::SendError(caller)) => caller,
            },
        };
        let _inside = self.runtime.enter();
        let carriers: RedisResult<Vec<BarrierConnection>> =
            (0..CARRIERS).map(|_| self.carrier(wanted)).collect();
        #[expect(
            clippy::disallowed_methods,
            reason = "bounded by the requests that wait for it"
        )]
        let (sender, callers) = mpsc::unbounded_channel();
        tokio::spawn(serve(carriers?, callers));
        // The receiver exists.
        let _ = sender.send(caller);
        gatherings.insert(wanted, sender);
        Ok(())
    }

    fn carrier(&self, wanted: Durability) -> RedisResult<BarrierConnection> {
        let config = self.waits.manager_config().set_response_timeout(None);
        Ok(BarrierConnection {
            redis_connection: RedisConnection::lazy(self.client.clone(), config, self.waits)?,
            wanted,
            history: Arc::clone(&self.history),
            slack: self.waits.command,
            is_misled: Arc::clone(&self.is_misled),
        })
    }
}

/// Sends barriers for all callers that wait at the same time, until the sender is dropped.
async fn serve(
    mut free: Vec<BarrierConnection>,
    mut callers: mpsc::UnboundedReceiver<BarrierWaiter>,
) {
    let mut under_way = FuturesUnordered::new();
    let mut begun_at = Instant::now();
    loop {
        let first = tokio::select! {
            Some(carrier) = under_way.next() => {
                free.push(carrier);
                continue;
            }
            caller = callers.recv() => match caller {
                Some(caller) => caller,
                None => return,
            },
        };
        // Callers that arrive in this time join the group.
        while !under_way.is_empty() {
            let next_at = begun_at + gap(under_way.len());
            tokio::select! {
                Some(carrier) = under_way.next() => free.push(carrier),
                () = sleep_until(next_at.into()), if !free.is_empty() => break,
            }
        }
        let mut group = vec![first];
        while let Ok(caller) = callers.try_recv() {
            group.push(caller);
        }
        if let Some(carrier) = free.pop() {
            begun_at = Instant::now();
            under_way.push(carrier.send_group(group));
        }
    }
}

/// Time between the begins of two barriers while `under_way` are in flight.
fn gap(under_way: usize) -> Duration {
    let growths = u32::try_from(under_way.saturating_sub(1)).unwrap_or(u32::MAX);
    GAP.saturating_mul(GAP_GROWTH.saturating_pow(growths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_are_spread_over_a_second() {
        let gaps: Vec<u128> = (1..CARRIERS).map(|count| gap(count).as_millis()).collect();
        assert_eq!(gaps, [20, 100, 500]);
    }
}
