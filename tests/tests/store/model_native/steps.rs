//! The steps of a sequence.

mod of_one_job;
mod strategies;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_core::v1::job::JobChange;
use tidegate_core::{IfExists, IfRunning, RetryDelays};
use tidegate_store::{AfterFailure, LeaseLength};

pub(super) use self::strategies::steps;

/// Number of keys, of idempotency keys and of queues.
pub(super) const KEYS: u8 = 3;
const REQUESTS: u8 = 2;
pub(super) const QUEUES: usize = 2;

/// When a job is due.
#[derive(Debug, Clone, Copy)]
pub(super) enum DueSpec {
    InMs(u64),
    /// This many ms after the present; below 0 in the past.
    Offset(i64),
}

/// Bytes of a payload or a result.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContentSpec {
    length: usize,
    compressible: bool,
}

impl ContentSpec {
    /// The bytes, which differ by the number.
    pub(super) fn bytes(self, number: u64) -> Bytes {
        let mut bytes = format!("{number}:").repeat(self.length).into_bytes();
        bytes.truncate(self.length);
        if !self.compressible {
            StdRng::seed_from_u64(number).fill_bytes(&mut bytes);
        }
        bytes.into()
    }
}

/// What a worker returns for a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResultSpec {
    pub(super) content: ContentSpec,
    pub(super) has_attributes: bool,
}

/// A job of the native API to be published.
#[derive(Debug, Clone)]
pub(super) struct JobSpec {
    pub(super) key: Option<u8>,
    pub(super) if_exists: IfExists,
    /// An idempotency key, and what it stands for.
    pub(super) request: Option<(u8, u64)>,
    pub(super) due: DueSpec,
    pub(super) start_within_ms: u64,
    pub(super) priority: u8,
    pub(super) content: ContentSpec,
    /// Whether the publisher waits for the end of the job.
    pub(super) is_awaited: bool,
    pub(super) lease_ms: Option<u32>,
    pub(super) max_attempts: Option<u16>,
    pub(super) retry: Option<RetryDelays>,
    pub(super) retain_ms: Option<u32>,
}

/// How a step names a job: by a key, or by its id, as one of those that were published.
#[derive(Debug, Clone, Copy)]
pub(super) enum NameSpec {
    Key(u8),
    Published(usize),
    /// One of those that were delivered, the last ones first.
    Delivered(usize),
}

/// One step. Deliveries are given by their index among all deliveries, the last ones first, modulo their number.
#[derive(Debug, Clone)]
pub(super) enum NativeStep {
    PublishKeyed {
        queue: usize,
        jobs: Vec<JobSpec>,
        max_jobs: Option<u64>,
        atomic: bool,
    },
    /// Jobs of lmstfy, or of the native API without a key.
    Publish {
        queue: usize,
        jobs: Vec<JobSpec>,
        tries: Option<u16>,
        max_jobs: Option<u64>,
        replaces: Option<usize>,
    },
    Reserve {
        queue: usize,
        count: u16,
        max_running: Option<u64>,
        lease: LeaseLength,
    },
    Ack {
        deliveries: Vec<usize>,
        by_attempt: bool,
        retain_ms: u64,
        /// Those of the first deliveries; none = the call has no results.
        results: Vec<Option<ResultSpec>>,
    },
    Fail {
        deliveries: Vec<usize>,
        then: AfterFailure,
    },
    Touch {
        deliveries: Vec<usize>,
        lease_ms: Option<u64>,
    },
    Release {
        deliveries: Vec<usize>,
        delay_ms: u64,
    },
    Cancel {
        queue: usize,
        job: NameSpec,
        if_running: IfRunning,
    },
    Change {
        queue: usize,
        job: NameSpec,
        change: JobChange,
    },
    Promote {
        queue: usize,
        job: NameSpec,
    },
    Peek {
        queue: usize,
        job: NameSpec,
    },
    Result {
        queue: usize,
        job: NameSpec,
    },
    PeekOldest {
        queue: usize,
        dead: bool,
    },
    Respawn {
        queue: usize,
        limit: u64,
        ttl_ms: u64,
    },
    PurgeReady {
        queue: usize,
    },
    PurgeDead {
        queue: usize,
        limit: u64,
    },
    /// Time passes, and no pump is running.
    Wait {
        ms: u64,
    },
    /// Time passes, and a pump does all that is due.
    MoveDue {
        after_ms: u64,
    },
    Sweep,
    /// Pumps move payloads of far jobs to the object store, except this number of the jobs at which they look.
    Freeze {
        skipped: usize,
    },
    /// And back.
    Thaw,
}
