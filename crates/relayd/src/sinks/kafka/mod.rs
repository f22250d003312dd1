//! A topic of Kafka.
//!
//! `settings` has the way to the brokers, `partitioner` chooses partitions, `session` has the connections, `message`
//! makes messages of jobs. The client library repeats nothing: the circuit breaker does.

mod message;
mod partitioner;
mod session;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tidegate::api::relay::KafkaConfig;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::{RelaySink, all_unavailable};
use crate::job::{DeliveryOutcome, RelayJob};
use message::{MessageKey, OutgoingMessage, batches, record};
use partitioner::partition_of_key;
use session::{KafkaSession, ProduceError};
use settings::KafkaTarget;

/// A topic of Kafka.
pub(crate) struct KafkaSink {
    target: KafkaTarget,
    key: MessageKey,
    time_limit: Duration,
    /// `None` before the first call, and after an error.
    session: Mutex<Option<Arc<KafkaSession>>>,
    /// Counts calls: messages without a key go to the partitions in turn.
    turn: AtomicUsize,
}

impl KafkaSink {
    /// Makes the sink. It connects when the first jobs are delivered.
    ///
    /// # Errors
    /// The certificate authorities of the system cannot be read. Callers have checked the settings.
    pub(crate) fn new(config: &KafkaConfig) -> Result<Self, String> {
        Ok(Self {
            target: KafkaTarget::new(config)?,
            key: MessageKey::new(config),
            time_limit: config.time_limit.into(),
            session: Mutex::new(None),
            turn: AtomicUsize::new(0),
        })
    }

    /// The open session, or a new one.
    async fn session(&self) -> Result<Arc<KafkaSession>, String> {
        let mut session = self.session.lock().await;
        if let Some(open) = session.as_ref().filter(|open| open.is_recent()) {
            return Ok(Arc::clone(open));
        }
        *session = None;
        let open = Arc::new(KafkaSession::open(&self.target).await?);
        *session = Some(Arc::clone(&open));
        Ok(open)
    }

    /// Leaders and metadata are looked up again by the next call.
    async fn forget(&self, failed: &Arc<KafkaSession>) {
        let mut session = self.session.lock().await;
        if session
            .as_ref()
            .is_some_and(|open| Arc::ptr_eq(open, failed))
        {
            *session = None;
        }
    }

    async fn deliver_until(&self, jobs: &[RelayJob], deadline: Instant) -> Vec<DeliveryOutcome> {
        let late = || format!("not confirmed within {:?}", self.time_limit);
        let session = match timeout_at(deadline, self.session()).await {
            Ok(Ok(session)) => session,
            Ok(Err(reason)) => return all_unavailable(jobs, &reason),
            Err(_) => return all_unavailable(jobs, &late()),
        };
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut by_partition: BTreeMap<usize, Vec<OutgoingMessage<'_>>> = BTreeMap::new();
        for (index, job) in jobs.iter().enumerate() {
            let key = self.key.of(job);
            let partition = key.map_or(turn % session.partitions(), |key| {
                partition_of_key(key.as_bytes(), session.partitions())
            });
            let keyed = OutgoingMessage { index, job, key };
            by_partition.entry(partition).or_default().push(keyed);
        }
        let deliveries = by_partition.iter().map(async |(partition, jobs)| {
            let outcomes = deliver_to(&session, *partition, jobs, deadline, &late).await;
            (jobs, outcomes)
        });
        // All of them are replaced.
        let mut outcomes = vec![DeliveryOutcome::Unavailable(String::new()); jobs.len()];
        for (jobs, delivered) in join_all(deliveries).await {
            for (job, outcome) in jobs.iter().zip(delivered) {
                outcomes[job.index] = outcome;
            }
        }
        let is_unavailable = |outcome: &_| matches!(outcome, DeliveryOutcome::Unavailable(_));
        if outcomes.iter().any(is_unavailable) {
            self.forget(&session).await;
        }
        outcomes
    }
}

/// Delivers the jobs of one partition, one batch after the other, so that they stay in order. A batch that the broker
/// refuses is halved until the job that is the cause is alone.
async fn deliver_to(
    session: &KafkaSession,
    partition: usize,
    jobs: &[OutgoingMessage<'_>],
    deadline: Instant,
    late: &impl Fn() -> String,
) -> Vec<DeliveryOutcome> {
    let mut waiting = batches(jobs);
    waiting.reverse();
    let mut outcomes = Vec::with_capacity(jobs.len());
    while let Some(batch) = waiting.pop() {
        let records = batch.iter().map(record).collect();
        let produced = timeout_at(deadline, session.produce(partition, records)).await;
        let produced = produced.unwrap_or_else(|_| Err(ProduceError::Unavailable(late())));
        match produced {
            Ok(()) => outcomes.extend(batch.iter().map(|_| DeliveryOutcome::Confirmed)),
            Err(ProduceError::Unavailable(reason)) => {
                let unavailable = DeliveryOutcome::Unavailable(reason);
                outcomes.resize(jobs.len(), unavailable);
                return outcomes;
            }
            Err(_) if batch.len() > 1 => {
                let (first, second) = batch.split_at(batch.len() / 2);
                waiting.extend([second, first]);
            }
            Err(ProduceError::TooLarge(error)) => outcomes.push(DeliveryOutcome::permanent(error)),
            Err(ProduceError::Invalid(error)) => outcomes.push(DeliveryOutcome::rejected(error)),
        }
    }
    outcomes
}

impl RelaySink for KafkaSink {
    fn deliver<'a>(&'a self, jobs: &'a [RelayJob]) -> BoxFuture<'a, Vec<DeliveryOutcome>> {
        let deadline = Instant::now() + self.time_limit;
        Box::pin(self.deliver_until(jobs, deadline))
    }
}
