//! What is batched.

use std::sync::Arc;

use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::{Acked, Done, PUBLISH_JOBS_MAX, Published, StoreError};

use super::Verb;
use crate::backlog::Room;
use crate::pool::Deployment;
use crate::size::Size;

/// How many calls of [`PublishAlone`] a queue may have in flight at a server.
const ALONE_CALLS_MAX: u16 = 16;

/// Jobs of one request. They take up room in the backlog until their call has ended.
#[derive(Debug)]
pub(crate) struct NewJobs {
    pub(crate) jobs: Vec<NewJob>,
    pub(crate) room: Room,
}

/// Publishing: each wish is up to 64 jobs for a queue.
#[derive(Debug)]
pub(crate) struct Publish;

impl Verb for Publish {
    type Subject = QueueKey;
    type Wish = NewJobs;
    type Outcome = Published;

    fn size(wish: &NewJobs) -> Size {
        wish.room.size()
    }

    fn lanes(to: &Deployment, queue: &QueueKey) -> u16 {
        to.lanes.open(queue)
    }

    async fn call(
        to: &Deployment,
        queue: &QueueKey,
        lane: u16,
        wishes: Vec<NewJobs>,
    ) -> Result<Vec<Published>, StoreError> {
        let counts: Vec<usize> = wishes.iter().map(|wish| wish.jobs.len()).collect();
        let parts = wishes.into_iter().map(|wish| (wish.jobs, wish.room));
        let (jobs, _rooms): (Vec<_>, Vec<_>) = parts.unzip();
        let jobs: Vec<NewJob> = jobs.into_iter().flatten().collect();
        let Published { ids, receipt } = to.lanes.publish(queue, lane, &jobs, None).await?;
        let mut ids = ids.into_iter();
        let of_wish = |count: usize| Published {
            ids: ids.by_ref().take(count).collect(),
            receipt: receipt.clone(),
        };
        Ok(counts.into_iter().map(of_wish).collect())
    }
}

/// Publishing what shares no call with others: large payloads would hold them up, and a call replaces one
/// job. Up to [`ALONE_CALLS_MAX`] calls are in flight for a queue at each server: one that does not answer holds up no
/// publishes to the others.
#[derive(Debug)]
pub(crate) struct PublishAlone;

/// A publish that has a call to itself.
#[derive(Debug)]
pub(crate) struct AlonePublish {
    pub(crate) new: NewJobs,
    /// The job to delete in the same step, if it is in the lane that the jobs are stored in. That is its own
    /// lane, unless that one is closed.
    pub(crate) replaces: Option<JobId>,
    /// Where to store the jobs. It was open when the publish came.
    pub(crate) lane: u16,
}

impl Verb for PublishAlone {
    /// A queue, and the server of the lane, if it is known.
    type Subject = (QueueKey, Option<Arc<str>>);
    type Wish = AlonePublish;
    type Outcome = Published;

    /// It fills a call.
    fn size(_wish: &AlonePublish) -> Size {
        Size {
            jobs: PUBLISH_JOBS_MAX,
            bytes: 0,
        }
    }

    /// Numbers of calls, not lanes of the queue: these are known when a call is made.
    fn lanes(_to: &Deployment, _subject: &Self::Subject) -> u16 {
        ALONE_CALLS_MAX
    }

    async fn call(
        to: &Deployment,
        (queue, _): &Self::Subject,
        _number: u16,
        wishes: Vec<AlonePublish>,
    ) -> Result<Vec<Published>, StoreError> {
        let mut outcomes = Vec::with_capacity(wishes.len());
        for wish in wishes {
            let AlonePublish {
                new,
                replaces,
                lane,
            } = wish;
            let publishing = to.lanes.publish(queue, lane, &new.jobs, replaces);
            outcomes.push(publishing.await?);
        }
        Ok(outcomes)
    }
}

/// Acknowledging: each wish is one of the jobs that a queue has in a bucket.
#[derive(Debug)]
pub(crate) struct Ack;

impl Verb for Ack {
    type Subject = (QueueKey, u16);
    type Wish = JobId;
    type Outcome = Acked;

    fn size(_wish: &JobId) -> Size {
        Size { jobs: 1, bytes: 0 }
    }

    /// A bucket has one lane of a queue.
    fn lanes(_to: &Deployment, _subject: &(QueueKey, u16)) -> u16 {
        1
    }

    async fn call(
        to: &Deployment,
        (queue, _): &(QueueKey, u16),
        _lane: u16,
        wishes: Vec<JobId>,
    ) -> Result<Vec<Acked>, StoreError> {
        let done = |id| Done { id, attempt: None };
        let jobs: Vec<Done> = wishes.into_iter().map(done).collect();
        to.store.ack_all(queue, &jobs).await
    }
}
