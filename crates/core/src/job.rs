//! A job to be published, and a job as it was read from Redis.

use bytes::Bytes;

use crate::extension::RecordExtension;
use crate::job_id::JobId;
use crate::limits::DURATION_MS_MAX;
use crate::state::JobState;

/// String attributes of a job, in the order in which they were given.
pub type Attributes = Vec<(String, String)>;

/// The attribute with the content type of a job of the native API. Names that begin with a colon cannot be used by
/// clients.
pub const CONTENT_TYPE_ATTRIBUTE: &str = ":t";
/// The attribute with the text of a job's key; its record has the hash only.
pub const KEY_ATTRIBUTE: &str = ":k";
/// The attribute with the name of a job's group; its record has the hash only.
pub const GROUP_ATTRIBUTE: &str = ":g";
/// The attribute with the span of a publish that is traced, as in the header `traceparent`.
pub const TRACE_PARENT_ATTRIBUTE: &str = ":p";

/// A job to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// The job's bytes; opaque to Tidegate.
    pub body: Bytes,
    /// Attributes that are delivered with the body.
    pub attributes: Attributes,
    /// Time until the job becomes consumable, in ms; 0 = at once.
    pub delay_ms: u64,
    /// Time until the job expires, in ms from now; 0 = never.
    pub ttl_ms: u64,
    /// How often the job may be delivered; at least 1. With options of the native API 0 = it counts failures instead.
    pub tries: u16,
    /// A flag that the HTTP interface stores with the job. It has no meaning in this crate.
    pub mark: bool,
    /// Options of the native API. A job that has them and no tries counts failures, and must start within `ttl_ms`
    /// after it is due.
    pub native: Option<Box<NativeOptions>>,
}

/// Options of a job that is published with the native API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NativeOptions {
    /// When the job is due, in ms since 1970, instead of the delay; the past means now.
    pub run_at_ms: Option<u64>,
    /// 0 to [`PRIORITY_MAX`](crate::limits::PRIORITY_MAX), which is delivered first.
    pub priority: u8,
    /// Whether a client waits for the end of the job.
    pub is_awaited: bool,
    /// Whether a job that counts failures is delivered again after any number of losses.
    pub losses_unlimited: bool,
    /// Options that are stored with the job.
    pub extension: RecordExtension,
}

/// Why a new job cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJob {
    /// A job without tries would be dead before its first delivery.
    #[error("tries must be at least 1")]
    NoTries,
    /// A duration is longer than [`DURATION_MS_MAX`].
    #[error(
        "delay and ttl must be at most {DURATION_MS_MAX} ms, and a due time at most that after 1970"
    )]
    DurationTooLong,
    /// The number of jobs of a call is not 1 to 64.
    #[error("a call publishes 1 to 64 jobs, not {0}")]
    BatchSize(usize),
}

impl NewJob {
    /// Whether the job counts failures and losses instead of the tries left.
    pub const fn counts_failures(&self) -> bool {
        self.native.is_some() && self.tries == 0
    }

    /// Checks the limits of tries and durations, which the scripts do not check.
    ///
    /// # Errors
    /// `tries` is 0, or a duration is above [`DURATION_MS_MAX`].
    pub const fn check(&self) -> Result<(), InvalidJob> {
        if self.tries == 0 && self.native.is_none() {
            return Err(InvalidJob::NoTries);
        }
        let is_too_late = matches!(self.run_at_ms(), Some(at_ms) if at_ms > DURATION_MS_MAX);
        if self.delay_ms > DURATION_MS_MAX || self.ttl_ms > DURATION_MS_MAX || is_too_late {
            return Err(InvalidJob::DurationTooLong);
        }
        Ok(())
    }

    /// When the job is due, in ms since 1970, if it has a time instead of a delay.
    pub const fn run_at_ms(&self) -> Option<u64> {
        match &self.native {
            Some(native) => native.run_at_ms,
            None => None,
        }
    }

    /// The size of the body and of all attributes, in bytes.
    pub fn payload_bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| name.len() + value.len());
        self.body.len() + attributes.sum::<usize>()
    }
}

/// The counts in a job of the native API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Failures {
    /// Deliveries that their consumers reported as failed, up to 4095.
    pub failures: u16,
    /// Leases that expired, up to 15.
    pub losses: u16,
}

/// A stored job, as it was when its record was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The job's id.
    pub id: JobId,
    /// The published bytes. A job that is done has the bytes of its result instead.
    pub body: Bytes,
    /// The published attributes. A job that is done has the attributes of its result instead.
    pub attributes: Attributes,
    /// The flag that the HTTP interface stored with the job.
    pub mark: bool,
    /// The stored options, if there are any.
    pub extension: Option<Box<RecordExtension>>,
    /// 0 to [`PRIORITY_MAX`](crate::limits::PRIORITY_MAX).
    pub priority: u8,
    /// `None` for a job with tries.
    pub failures: Option<Failures>,
    /// Whether its producer wants it cancelled while a consumer holds it.
    pub cancel_requested: bool,
    /// Whether it has a history of failures.
    pub has_history: bool,
    pub state: JobState,
    /// Deliveries left; 0 if the job counts failures.
    pub tries_left: u16,
    /// Deliveries made. While leased it identifies the lease.
    pub attempt: u32,
    /// When the job was published, in ms since 1970 on the clock of Redis.
    pub created_at_ms: u64,
    /// Due time while delayed, end of the lease while leased, otherwise the last such time; in ms since 1970.
    pub due_at_ms: u64,
    /// When the job was due, in ms since 1970, where that is known: not of leased jobs that are peeked at, which have
    /// `due_at_ms` here too.
    pub run_at_ms: u64,
    /// When the job expires, in ms since 1970; 0 = never.
    pub expires_at_ms: u64,
}

impl Job {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_needs_one_try_and_bounded_durations() {
        let job = NewJob {
            body: Bytes::new(),
            attributes: vec![],
            delay_ms: DURATION_MS_MAX,
            ttl_ms: 0,
            tries: 1,
            mark: false,
            native: None,
        };
        assert_eq!(job.check(), Ok(()));
        assert_eq!(
            NewJob {
                tries: 0,
                ..job.clone()
            }
            .check(),
            Err(InvalidJob::NoTries)
        );
        let ttl_ms = DURATION_MS_MAX + 1;
        assert_eq!(
            NewJob { ttl_ms, ..job }.check(),
            Err(InvalidJob::DurationTooLong)
        );
    }
}
