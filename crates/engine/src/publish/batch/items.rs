//! The verbs that are batched, and their items.

use tidegate_core::{JobId, NewJob, QueueKey};
use tidegate_store::KeyPlace;

use crate::publish::backlog::BacklogPermit;

/// The jobs of one request. They hold their room in the backlog until their call has ended.
#[derive(Debug)]
pub(crate) struct PublishItem<J> {
    pub(crate) jobs: Vec<J>,
    pub(crate) room: BacklogPermit,
}

/// Publishing: each item is up to 64 jobs for a queue. If the queue has no room for all items of a call, some are
/// stored.
#[derive(Debug)]
pub(crate) struct BatchedPublish;

/// Publishing in separate calls: large payloads would delay other requests, and a call can replace only one job. Up to
/// 16 calls are in flight for a queue at each server, so that a server that does not answer does not
/// block publishes to the others.
#[derive(Debug)]
pub(crate) struct SinglePublish;

/// A publish with its own call.
#[derive(Debug)]
pub(crate) struct SinglePublishItem {
    pub(crate) new: PublishItem<NewJob>,
    /// The job to delete in the same step. It is deleted only if it is in the lane in which the jobs are stored, which
    /// is its own lane unless that lane is closed.
    pub(crate) replaces: Option<JobId>,
    /// The lane to store the jobs in. It was open when the request arrived.
    pub(crate) lane: u16,
}

/// Publishing jobs with keys: each item is up to 64 jobs of a lane, which need not be stored as a whole.
#[derive(Debug)]
pub(crate) struct BatchedKeyedPublish;

/// The publishes of jobs with keys that share calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct KeyedBatchKey {
    pub(crate) queue: QueueKey,
    pub(crate) call: LaneCall,
}

/// Which jobs a publish of jobs with keys may store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Intake {
    /// New ones, and others.
    Open,
    /// Only new versions of jobs that are there: the namespace has no room for more.
    Full,
    /// None: the queue is closed. Repeated requests are answered.
    Closed,
}

/// How a call publishes jobs with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LaneCall {
    pub(crate) place: KeyPlace,
    /// Whether the lane is only asked for jobs that it has.
    pub(crate) asks: bool,
    pub(crate) atomic: bool,
    pub(crate) intake: Intake,
}

/// Acknowledging: each item is a job of a queue in one bucket, where a queue has at most one lane.
#[derive(Debug)]
pub(crate) struct BatchedAck;

/// The acknowledgements that share calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AckKey {
    pub(crate) queue: QueueKey,
    pub(crate) bucket: u16,
    /// Whether the jobs are kept as the policy of the queue says. Otherwise they are deleted.
    pub(crate) retains: bool,
}
