//! The verbs that are batched.

use std::sync::Arc;

use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{AckOutcome, AckRequest, PUBLISH_JOBS_MAX, PublishedJobs, StoreError};

use super::Verb;
use crate::backlog::BacklogPermit;
use crate::deployment::RedisDeployment;
use crate::size::PublishSize;

/// The most calls of [`SinglePublish`] in flight for a queue at each server.
const ALONE_CALLS_MAX: u16 = 16;

/// The jobs of one request. They hold their room in the backlog until their call has ended.
#[derive(Debug)]
pub(crate) struct PublishItem {
    pub(crate) jobs: Vec<NewJob>,
    pub(crate) room: BacklogPermit,
}

/// Publishing: each item is up to 64 jobs for a queue.
#[derive(Debug)]
pub(crate) struct BatchedPublish;

impl Verb for BatchedPublish {
    type BatchKey = QueueKey;
    type BatchItem = PublishItem;
    type ItemOutcome = PublishedJobs;

    fn size(item: &PublishItem) -> PublishSize {
        item.room.size()
    }

    fn lanes(to: &RedisDeployment, queue: &QueueKey) -> u16 {
        to.lanes.open(queue)
    }

    async fn call(
        to: &RedisDeployment,
        queue: &QueueKey,
        lane: u16,
        items: Vec<PublishItem>,
    ) -> Result<Vec<PublishedJobs>, StoreError> {
        let counts: Vec<usize> = items.iter().map(|item| item.jobs.len()).collect();
        let parts = items.into_iter().map(|item| (item.jobs, item.room));
        let (jobs, _rooms): (Vec<_>, Vec<_>) = parts.unzip();
        let jobs: Vec<NewJob> = jobs.into_iter().flatten().collect();
        let PublishedJobs { ids, receipt } = to.publisher.publish(queue, lane, &jobs, None).await?;
        let mut ids = ids.into_iter();
        let of_wish = |count: usize| PublishedJobs {
            ids: ids.by_ref().take(count).collect(),
            receipt: receipt.clone(),
        };
        Ok(counts.into_iter().map(of_wish).collect())
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
    pub(crate) new: PublishItem,
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
    type ItemOutcome = PublishedJobs;

    /// A full batch, so that no other item joins the call.
    fn size(_item: &SinglePublishItem) -> PublishSize {
        PublishSize {
            jobs: PUBLISH_JOBS_MAX,
            bytes: 0,
        }
    }

    /// The number of concurrent calls. The lane of the queue is in the item.
    fn lanes(_to: &RedisDeployment, _key: &Self::BatchKey) -> u16 {
        ALONE_CALLS_MAX
    }

    async fn call(
        to: &RedisDeployment,
        (queue, _): &Self::BatchKey,
        _number: u16,
        items: Vec<SinglePublishItem>,
    ) -> Result<Vec<PublishedJobs>, StoreError> {
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            let jobs = &item.new.jobs;
            let publishing = to.publisher.publish(queue, item.lane, jobs, item.replaces);
            outcomes.push(publishing.await?);
        }
        Ok(outcomes)
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
        to: &RedisDeployment,
        (queue, _): &(QueueKey, u16),
        _lane: u16,
        items: Vec<JobId>,
    ) -> Result<Vec<AckOutcome>, StoreError> {
        let done = |id| AckRequest { id, attempt: None };
        let jobs: Vec<AckRequest> = items.into_iter().map(done).collect();
        to.store.ack_all(queue, &jobs).await
    }
}
