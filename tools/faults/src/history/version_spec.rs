//! The version that a publish asks to store.

use serde::{Deserialize, Serialize};
use tidegate_core::IfExists;

use super::time::UnixMicros;

/// A job to store, or a version of the job that has its key. Times are in µs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionSpec {
    /// Its number, unique in the run; its payload begins with it.
    pub number: u64,
    /// The length of its payload, in bytes.
    pub bytes: usize,
    /// Whether its payload is not text.
    pub is_binary: bool,
    /// The number of its attributes. Their names and values are derived from its number.
    pub attributes: u8,
    pub delay: u64,
    /// When it is due, in place of a delay.
    pub run_at: Option<UnixMicros>,
    /// Its time to live; 0 = no expiry.
    pub ttl: u64,
    /// On the lmstfy wire how often it may be delivered, on the native API how often it may fail; 0 = as in the policy.
    pub tries: u64,
    /// The number of its key.
    pub key: Option<u32>,
    /// The effect on a job with its key.
    pub if_exists: IfExists,
    /// The length of its lease; 0 = as in the policy.
    pub lease: u64,
    /// The delays before its retries; `None` = as in the policy.
    pub retry: Option<RetryTimes>,
    /// Its priority, on the native API.
    #[serde(default)]
    pub priority: u8,
    /// The number of its group, on the native API.
    #[serde(default)]
    pub group: Option<u8>,
    /// How long it keeps its key after it is done.
    pub retain: u64,
    /// The number of the idempotency key of the request, which may be repeated.
    pub idempotency_key: Option<u64>,
    /// How long the publisher waits for the end of the job.
    pub wait: u64,
}

/// The delays before the retries of a job. The last one repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryTimes {
    /// In µs.
    pub delays: Vec<u64>,
    /// By how many thousandths each is longer or shorter.
    pub jitter: u64,
}
