//! Carries barriers to a server, one at a time over one connection.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue, RedisResult, Value};
use tidegate_core::SlotWidth;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::history::History;
use crate::durability::{Durability, NotDurable};
use crate::link::line::Line;
use crate::link::server::bounded;
use crate::script::{LazyScript, script};
use crate::{Receipt, StoreError};

static BARRIER: LazyScript = script!("barrier");

/// A slot that moves puts a barrier off; so many slots rarely do at a time.
const BUCKETS_TRIED: usize = 3;
/// Between two barriers for the same publishes, after the connection has broken. The connection may have been ended while it
/// was idle, and a barrier changes nothing that stays: it may be sent any number of times.
const RESEND_PAUSE: Duration = Duration::from_millis(50);

/// A publish that waits.
pub(super) struct Caller {
    pub(super) receipt: Receipt,
    /// The key in its bucket that barriers are written to.
    pub(super) key: String,
    /// When it has to be answered.
    pub(super) deadline: Instant,
    pub(super) outcome: oneshot::Sender<Result<(), NotDurable>>,
}

/// A connection for barriers of one kind.
pub(super) struct Carrier {
    pub(super) line: Line,
    pub(super) wanted: Durability,
    pub(super) history: Arc<History>,
    /// How long an answer may take, besides what it is to wait.
    pub(super) slack: Duration,
}

/// What a server says behind a barrier.
struct Passed {
    reached: Durability,
    /// `INFO server replication`, asked for after the wait.
    info: String,
}

impl Carrier {
    /// Answers those whose jobs were written before now; the carrier is free again then.
    pub(super) async fn carry(self, callers: Vec<Caller>) -> Self {
        let callers: Vec<Caller> = callers
            .into_iter()
            .filter(|caller| !caller.outcome.is_closed())
            .collect();
        let passed = self.barrier(&callers).await;
        for caller in callers {
            let outcome = self.outcome(&caller.receipt, &passed);
            // Whoever left does not want to know.
            let _ = caller.outcome.send(outcome);
        }
        self
    }

    fn outcome(
        &self,
        receipt: &Receipt,
        passed: &Result<Passed, StoreError>,
    ) -> Result<(), NotDurable> {
        let wanted = self.wanted;
        let shortfall = |reached, reason: String| NotDurable {
            wanted,
            reached,
            reason,
        };
        let unknown = |reason: String| Err(shortfall(Durability::MEMORY, reason));
        match passed {
            Err(error) => unknown(error.to_string()),
            Ok(Passed { info, .. }) if !self.history.includes(receipt.sent_at, info) => {
                unknown("redis was restarted, or was a replica, meanwhile".to_owned())
            }
            Ok(Passed { reached, .. }) if *reached == wanted => Ok(()),
            Ok(Passed { reached, .. }) => Err(shortfall(
                *reached,
                "no more was confirmed in time".to_owned(),
            )),
        }
    }

    /// Writes, and waits for copies of what was written. While the server is unavailable this is repeated
    /// until the last deadline.
    async fn barrier(&self, callers: &[Caller]) -> Result<Passed, StoreError> {
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

    /// Tries the buckets of several callers where they are elsewhere by now.
    async fn barrier_at_any(
        &self,
        keys: &BTreeSet<&str>,
        deadline: Instant,
    ) -> Result<Passed, StoreError> {
        let wait = deadline.saturating_duration_since(Instant::now());
        let mut passed = Err(StoreError::not_ready(
            "no publish waits any more".to_owned(),
        ));
        for key in keys.iter().take(BUCKETS_TRIED) {
            passed = self.barrier_at(key, wait).await;
            match &passed {
                Err(StoreError::Unavailable {
                    reason: crate::Unavailable::NotReady,
                    ..
                }) => {}
                _ => break,
            }
        }
        passed
    }

    async fn barrier_at(&self, key: &str, wait: Duration) -> Result<Passed, StoreError> {
        let mut line = &self.line;
        let behind = questions(self.wanted, wait);
        let waits = u32::from(self.wanted.fsync) + u32::from(self.wanted.replicas > 0);
        let barrier = BARRIER.of(SlotWidth::default());
        let asking = barrier.run_before(key, behind, &mut line);
        let answers = bounded(wait * waits + self.slack, asking).await?;
        read(answers, self.wanted).map_err(StoreError::from)
    }
}

/// The commands behind a barrier.
fn questions(wanted: Durability, wait: Duration) -> Vec<Cmd> {
    // 0 would be for ever.
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

/// Their answers.
fn read(answers: Vec<Value>, wanted: Durability) -> RedisResult<Passed> {
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
    Ok(Passed { reached, info })
}
