//! The verbs that are batched.

use std::sync::Arc;

use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{
    AckOutcome, AckRequest, KeyedCall, KeyedPublish, LanePublish, PUBLISH_JOBS_MAX, PublishJob,
    PublishReply, PublishedJobs, Receipt, StoreError,
};

use super::Verb;
use crate::backlog::BacklogPermit;
use crate::pool::Pool;
use crate::size::PublishSize;

/// The most calls of [`SinglePublish`] in flight for a queue at each server.
const ALONE_CALLS_MAX: u16 = 16;

/// How long a request with an idempotency key may be repeated, in ms.
const IDEMPOTENCY_WINDOW_MS: u64 = 600_000;

/// The jobs of one request. They hold their room in the backlog until their call has ended.
#[derive(Debug)]
pub(crate) struct PublishItem<J> {
    pub(crate) jobs: Vec<J>,
    pub(crate) room: BacklogPermit,
}

fn into_jobs_and_rooms<J>(items: Vec<PublishItem<J>>) -> (Vec<Vec<J>>, Vec<BacklogPermit>) {
    items.into_iter().map(|item| (item.jobs, item.room)).unzip()
}

/// Publishing: each item is up to 64 jobs for a queue. If the queue has no room for all items of a call, some are stored.
#[derive(Debug)]
pub(crate) struct BatchedPublish;

impl Verb for BatchedPublish {
    type BatchKey = QueueKey;
    type BatchItem = PublishItem<NewJob>;
    /// An error if the item may not be stored, beside others that are.
    type ItemOutcome = Result<LanePublish, StoreError>;

    fn size(item: &PublishItem<NewJob>) -> PublishSize {
        item.room.size()
    }

    fn lanes(pool: &Pool, queue: &QueueKey) -> u16 {
        pool.lanes.open(queue)
    }

    async fn call(
        pool: &Pool,
        queue: &QueueKey,
        lane: u16,
        items: Vec<PublishItem<NewJob>>,
    ) -> Result<Vec<Self::ItemOutcome>, StoreError> {
        let (jobs, _rooms) = into_jobs_and_rooms(items);
        if let Some(max_jobs) = pool.policies.max_jobs(queue) {
            let publisher = &pool.publisher;
            return Ok(publisher.publish_items(queue, lane, &jobs, max_jobs).await);
        }
        let counts: Vec<usize> = jobs.iter().map(Vec::len).collect();
        let jobs: Vec<NewJob> = jobs.into_iter().flatten().collect();
        let published = pool
            .publisher
            .publish(queue, lane, &jobs, None, None)
            .await?;
        let LanePublish::Stored(PublishedJobs { ids, receipt }) = published else {
            return Ok(vec![Ok(published); counts.len()]);
        };
        let mut ids = ids.into_iter();
        let of_item = |count: usize| {
            Ok(LanePublish::Stored(PublishedJobs {
                ids: ids.by_ref().take(count).collect(),
                receipt: receipt.clone(),
            }))
        };
        Ok(counts.into_iter().map(of_item).collect())
    }
}

/// Publishing in separate calls: large payloads would delay other requests, and a call can replace only one job. Up to
/// [`ALONE_CALLS_MAX`] calls are in flight for a queue at each server, so that a server that does not answer does not
/// block publishes to the others.
#[derive(Debug)]
pub(crate) struct SinglePublish;

/// A publish with its own call.
#[derive(Debug)]
pub(crate) struct SinglePublishItem {
    pub(crate) new: PublishItem<NewJob>,
    /// The job to delete in the same step. It is deleted only if it is in the lane in which the jobs are stored, which
    /// is its own lane unless that one is closed.
    pub(crate) replaces: Option<JobId>,
    /// The lane to store the jobs in. It was open when the request arrived.
    pub(crate) lane: u16,
}

impl Verb for SinglePublish {
    /// A queue, and the server of the lane, if it is known.
    type BatchKey = (QueueKey, Option<Arc<str>>);
    type BatchItem = SinglePublishItem;
    type ItemOutcome = LanePublish;

    /// A full batch, so that no other item joins the call.
    fn size(_item: &SinglePublishItem) -> PublishSize {
        PublishSize {
            jobs: PUBLISH_JOBS_MAX,
            bytes: 0,
        }
    }

    /// The number of concurrent calls. The lane of the queue is in the item.
    fn lanes(_pool: &Pool, _key: &Self::BatchKey) -> u16 {
        ALONE_CALLS_MAX
    }

    async fn call(
        pool: &Pool,
        (queue, _): &Self::BatchKey,
        _number: u16,
        items: Vec<SinglePublishItem>,
    ) -> Result<Vec<LanePublish>, StoreError> {
        let max_jobs = pool.policies.max_jobs(queue);
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            let jobs = &item.new.jobs;
            let publishing =
                pool.publisher
                    .publish(queue, item.lane, jobs, item.replaces, max_jobs);
            outcomes.push(publishing.await?);
        }
        Ok(outcomes)
    }
}

/// Publishing jobs with keys, which are all in the first lane of their queue: each item is up to 64 jobs, which need not
/// be stored as a whole.
#[derive(Debug)]
pub(crate) struct BatchedKeyedPublish;

impl Verb for BatchedKeyedPublish {
    type BatchKey = QueueKey;
    type BatchItem = PublishItem<PublishJob>;
    type ItemOutcome = (Vec<PublishReply>, Receipt);

    fn size(item: &PublishItem<PublishJob>) -> PublishSize {
        item.room.size()
    }

    async fn call(
        pool: &Pool,
        queue: &QueueKey,
        _lane: u16,
        items: Vec<PublishItem<PublishJob>>,
    ) -> Result<Vec<(Vec<PublishReply>, Receipt)>, StoreError> {
        let (jobs, _rooms) = into_jobs_and_rooms(items);
        let counts: Vec<usize> = jobs.iter().map(Vec::len).collect();
        let jobs = jobs.into_iter().flatten().collect();
        let call = pool.keyed_call(queue, false);
        match pool.store.publish_keyed(queue, jobs, call).await? {
            KeyedPublish::Done { results, receipt } => {
                let mut results = results.into_iter();
                let of_item = |count| (results.by_ref().take(count).collect(), receipt.clone());
                Ok(counts.into_iter().map(of_item).collect())
            }
            KeyedPublish::Refused { outcome, .. } => Err(StoreError::Corrupt(format!(
                "script refused jobs that are stored one by one: {outcome:?}"
            ))),
        }
    }
}

/// How jobs with keys are published to a queue that may have `max_jobs` in its first lane.
pub(crate) fn keyed_call(max_jobs: Option<u64>, atomic: bool) -> KeyedCall {
    KeyedCall {
        max_jobs,
        is_closed: false,
        idempotency_window_ms: IDEMPOTENCY_WINDOW_MS,
        atomic,
    }
}

/// Acknowledging: each item is a job of a queue in one bucket, where a queue has at most one lane.
#[derive(Debug)]
pub(crate) struct BatchedAck;

impl Verb for BatchedAck {
    type BatchKey = (QueueKey, u16);
    type BatchItem = JobId;
    type ItemOutcome = AckOutcome;

    async fn call(
        pool: &Pool,
        (queue, _): &(QueueKey, u16),
        _lane: u16,
        items: Vec<JobId>,
    ) -> Result<Vec<AckOutcome>, StoreError> {
        let done = |id| AckRequest { id, attempt: None };
        let jobs: Vec<AckRequest> = items.into_iter().map(done).collect();
        pool.store.ack_all(queue, &jobs, 0).await
    }
}

/// Acknowledging deliveries: each item is a job of a queue in one bucket, with the attempt that is done.
#[derive(Debug)]
pub(crate) struct BatchedLeaseAck;

impl Verb for BatchedLeaseAck {
    type BatchKey = (QueueKey, u16);
    type BatchItem = AckRequest;
    type ItemOutcome = AckOutcome;

    async fn call(
        pool: &Pool,
        (queue, _): &(QueueKey, u16),
        _lane: u16,
        items: Vec<AckRequest>,
    ) -> Result<Vec<AckOutcome>, StoreError> {
        let retain_ms = pool.policies.policy(queue).retain_ms;
        pool.store.ack_all(queue, &items, retain_ms).await
    }
}
