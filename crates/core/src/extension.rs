//! Options that most jobs do not have. They are stored with a job between its header and its payload.

use crate::group_hash::GroupHash;

/// Length of the hash of a key, in bytes.
pub const KEY_HASH_BYTES: usize = 12;

/// How long each delay after a failure is, in ms.
#[derive(Debug, Clone, PartialEq)]
pub enum RetrySteps {
    /// The delay after the first failure, after the second failure, and so on, at most
    /// [`RETRY_DELAYS_MAX`](crate::limits::RETRY_DELAYS_MAX) delays; the last delay is repeated.
    Listed(Vec<u64>),
    /// The delay is multiplied by the factor after each failure, up to the longest one.
    Growing {
        /// The delay after the first failure.
        first_ms: u64,
        /// At least 1.
        factor: f64,
        /// The longest delay.
        max_ms: u64,
    },
}

/// A policy has no factor that is not a number.
impl Eq for RetrySteps {}

/// The delays before the next attempts of a job that has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryDelays {
    /// The delays without their random part.
    pub steps: RetrySteps,
    /// The part of a delay, in thousandths, by which it may be longer at random; up to 1000.
    pub jitter_permille: u16,
}

/// Options that are stored with a job. [`RecordExtension::default`] has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordExtension {
    /// The hash of the key of the job, which is unique in its queue.
    pub key_hash: Option<[u8; KEY_HASH_BYTES]>,
    /// The hash of the group of the job.
    pub group_hash: Option<GroupHash>,
    /// The length of a lease, in ms, unless the consumer asks for another.
    pub lease_ms: Option<u32>,
    /// The number of failures after which the job is dead.
    pub max_attempts: Option<u16>,
    /// The delays after failures.
    pub retry: Option<RetryDelays>,
    /// How long the job is kept after it is done, in ms.
    pub retain_ms: Option<u32>,
}

impl RecordExtension {
    /// Whether a job has none of these options: its record has no extension.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
