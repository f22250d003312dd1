//! The calls of the verbs that are batched.

use std::sync::Arc;

use tidegate_core::{NewJob, QueueKey};
use tidegate_store::{AckRequest, Acked, PUBLISH_JOBS_MAX, PublishJob, PublishReply, StoreError};

use super::Verb;
use super::items::{
    AckKey, BatchedAck, BatchedKeyedPublish, BatchedPublish, KeyedBatchKey, PublishItem,
    SinglePublish, SinglePublishItem,
};
use crate::pool::Pool;
use crate::publish::backlog::BacklogPermit;
use crate::publish::lane::JobsOfQueue;
use crate::publish::size::PublishSize;

/// The most calls of [`SinglePublish`] in flight for a queue at each server.
const ALONE_CALLS_MAX: u16 = 16;

fn into_jobs_and_rooms<J>(items: Vec<PublishItem<J>>) -> (Vec<Vec<J>>, Vec<BacklogPermit>) {
    items.into_iter().map(|item| (item.jobs, item.room)).unzip()
}

impl Verb for BatchedPublish {
    type Context = Pool;
    type BatchKey = QueueKey;
    type BatchItem = PublishItem<NewJob>;
    /// An error if the item may not be stored, beside others that are.
    type ItemOutcome = Result<PublishReply, StoreError>;

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
        let jobs = JobsOfQueue {
            queue,
            jobs: &jobs,
            replaces: None,
            max_jobs: None,
        };
        let published = pool.publisher.publish(lane, jobs).await?;
        Ok(published.split(&counts).into_iter().map(Ok).collect())
    }
}

impl Verb for SinglePublish {
    type Context = Pool;
    /// A queue, and the server of the lane, if it is known.
    type BatchKey = (QueueKey, Option<Arc<str>>);
    type BatchItem = SinglePublishItem;
    type ItemOutcome = PublishReply;

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
    ) -> Result<Vec<PublishReply>, StoreError> {
        let max_jobs = pool.policies.max_jobs(queue);
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            let jobs = JobsOfQueue {
                queue,
                jobs: &item.new.jobs,
                replaces: item.replaces,
                max_jobs,
            };
            outcomes.push(pool.publisher.publish(item.lane, jobs).await?);
        }
        Ok(outcomes)
    }
}

impl Verb for BatchedKeyedPublish {
    type Context = Pool;
    type BatchKey = KeyedBatchKey;
    type BatchItem = PublishItem<PublishJob>;
    type ItemOutcome = PublishReply;

    fn size(item: &PublishItem<PublishJob>) -> PublishSize {
        item.room.size()
    }

    async fn call(
        pool: &Pool,
        key: &KeyedBatchKey,
        _lane: u16,
        items: Vec<PublishItem<PublishJob>>,
    ) -> Result<Vec<PublishReply>, StoreError> {
        let (jobs, _rooms) = into_jobs_and_rooms(items);
        let counts: Vec<usize> = jobs.iter().map(Vec::len).collect();
        let jobs = jobs.into_iter().flatten().collect();
        let call = pool.keyed_call(&key.queue, key.call);
        let reply = pool.store.publish_keyed(&key.queue, jobs, call).await?;
        Ok(reply.split(&counts))
    }
}

impl Verb for BatchedAck {
    type Context = Pool;
    type BatchKey = AckKey;
    type BatchItem = AckRequest;
    type ItemOutcome = Acked;

    async fn call(
        pool: &Pool,
        key: &AckKey,
        _lane: u16,
        items: Vec<AckRequest>,
    ) -> Result<Vec<Acked>, StoreError> {
        let retain_ms = match key.retains {
            true => pool.policies.policy(&key.queue).retain_ms,
            false => 0,
        };
        pool.store.ack_all(&key.queue, &items, retain_ms).await
    }
}
