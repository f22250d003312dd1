//! Sends barriers to a server, one at a time on one connection.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue, RedisResult, Value};
use tidegate_core::{Durability, SlotWidth};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::history::ReplicationHistory;
use crate::durability::DurabilityError;
use crate::error::{StoreError, Unavailable};
use crate::link::connection::RedisConnection;
use crate::link::waits::bounded;
use crate::script::{LazyScript, script};

static BARRIER: LazyScript = script!("barrier");

/// A barrier fails while the slot of its bucket moves. It is rare that this many slots move at the same time.
const BUCKETS_TRIED: usize = 3;
/// Pause before a barrier is sent again after the connection broke. The connection may have been closed while it was
/// idle. A barrier leaves nothing behind, so it may be sent any number of times.
const RESEND_PAUSE: Duration = Duration::from_millis(50);

/// A publish that waits.
pub(super) struct BarrierWaiter {
    /// The time at which the call that wrote its jobs was sent.
    pub(super) sent_at: Instant,
    /// The barrier key of its bucket.
    pub(super) key: String,
    /// When its wait ends.
    pub(super) deadline: Instant,
    pub(super) outcome: oneshot::Sender<Result<(), DurabilityError>>,
}

/// A connection for barriers of one durability.
pub(super) struct BarrierConnection {
    pub(super) redis_connection: RedisConnection,
    pub(super) wanted: Durability,
    pub(super) history: Arc<ReplicationHistory>,
    /// How long a reply may take, in addition to the wait itself.
    pub(super) slack: Duration,
    pub(super) is_misled: Arc<AtomicBool>,
}

/// The replies to the commands behind a barrier.
struct BarrierReply {
    reached: Durability,
    /// The reply to `INFO server replication`, sent after the wait.
    info: String,
}

impl BarrierConnection {
    /// Sends a barrier for these callers, and sends them the outcome. Returns the carrier for the next barrier.
    pub(super) async fn send_group(self, callers: Vec<BarrierWaiter>) -> Self {
        let callers: Vec<BarrierWaiter> = callers
            .into_iter()
            .filter(|caller| !caller.outcome.is_closed())
            .collect();
        let passed = self.barrier(&callers).await;
        for caller in callers {
            let outcome = self.outcome(caller.sent_at, &passed);
            // A caller that has left does not receive it.
            let _ = caller.outcome.send(outcome);
        }
        self
    }

    fn outcome(
        &self,
        sent_at: Instant,
        passed: &Result<BarrierReply, StoreError>,
    ) -> Result<(), DurabilityError> {
        let wanted = self.wanted;
        let shortfall = |reached, reason: String| DurabilityError {
            wanted,
            reached,
            reason,
        };
        let unknown = |reason: String| Err(shortfall(Durability::MEMORY, reason));
        match passed {
            Err(error) => unknown(error.to_string()),
            Ok(BarrierReply { info, .. }) if !self.history.includes(sent_at, info) => {
                unknown("redis was restarted, or was a replica, since the write".to_owned())
            }
            Ok(BarrierReply { reached, .. }) if *reached == wanted => Ok(()),
            Ok(BarrierReply { reached, .. }) => Err(shortfall(
                *reached,
                "more copies were not confirmed in time".to_owned(),
            )),
        }
    }

    /// Sends a barrier and waits for it. While the server is unavailable, this is repeated until the last deadline.
    async fn barrier(&self, callers: &[BarrierWaiter]) -> Result<BarrierReply, StoreError> {
        let now = Instant::now();
        let deadline = callers.iter().map(|caller| caller.deadline).max();
        let deadline = deadline.unwrap_or(now);
        let keys: BTreeSet<&str> = callers.iter().map(|caller| &*caller.key).collect();
        loop {
            let passed = self.barrier_at_any(&keys, deadline).await;
            let is_awaited = Instant::now() + RESEND_PAUSE < deadline
                && callers.iter().any(|caller| !caller.outcome.is_closed());
            match &passed {
                Err(StoreError::Unavailable { .. }) if is_awaited => sleep(RESEND_PAUSE).await,
                _ => return passed,
            }
        }
    }

    /// Tries the buckets of several callers, since a bucket may have moved to another server.
    async fn barrier_at_any(
        &self,
        keys: &BTreeSet<&str>,
        deadline: Instant,
    ) -> Result<BarrierReply, StoreError> {
        let wait = deadline.saturating_duration_since(Instant::now());
        let mut passed = Err(StoreError::not_ready("no publish is waiting"));
        for key in keys.iter().take(BUCKETS_TRIED) {
            passed = self.barrier_at(key, wait).await;
            if matches!(&passed, Err(error) if error.is_from_replica()) {
                self.is_misled.store(true, Ordering::Relaxed);
            }
            let reason = passed.as_ref().err().and_then(StoreError::reason);
            if reason != Some(Unavailable::NotReady) {
                break;
            }
        }
        passed
    }

    async fn barrier_at(&self, key: &str, wait: Duration) -> Result<BarrierReply, StoreError> {
        let mut redis_connection = &self.redis_connection;
        let behind = wait_commands(self.wanted, wait);
        let waits = u32::from(self.wanted.fsync) + u32::from(self.wanted.replicas > 0);
        let barrier = BARRIER.of(SlotWidth::default());
        let asking = barrier.run_with_commands(key, behind, &mut redis_connection);
        let answers = bounded(wait * waits + self.slack, asking).await?;
        read(answers, self.wanted).map_err(StoreError::from)
    }
}

/// The commands to send behind a barrier.
fn wait_commands(wanted: Durability, wait: Duration) -> Vec<Cmd> {
    // 0 would mean no time limit.
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut questions = Vec::new();
    if wanted.replicas > 0 {
        let mut wait = redis::cmd("WAIT");
        wait.arg(wanted.replicas).arg(wait_ms);
        questions.push(wait);
    }
    if wanted.fsync {
        let mut wait = redis::cmd("WAITAOF");
        wait.arg(1).arg(0).arg(wait_ms);
        questions.push(wait);
    }
    let mut info = redis::cmd("INFO");
    info.arg("server").arg("replication");
    questions.push(info);
    questions
}

/// Reads the replies to these commands.
fn read(answers: Vec<Value>, wanted: Durability) -> RedisResult<BarrierReply> {
    let mut answers = answers.into_iter().map(Value::extract_error);
    let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
    let mut reached = Durability::MEMORY;
    if wanted.replicas > 0 {
        let replicas = u64::from_redis_value(next()?)?;
        reached.replicas = u8::try_from(replicas).unwrap_or(u8::MAX);
    }
    if wanted.fsync {
        let (local, _) = <(u64, u64)>::from_redis_value(next()?)?;
        reached.fsync = local > 0;
    }
    let info = String::from_redis_value(next()?)?;
    let reached = reached.at_most(wanted);
    Ok(BarrierReply { reached, info })
}
