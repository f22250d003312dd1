//! A job before it is stored and a job as it is handed out.

use bytes::Bytes;

use crate::{JobId, State};

/// String attributes that travel with a job, in the order they were given.
pub type Attributes = Vec<(String, String)>;

/// The longest delay, time to live or time to run, in ms: about 557 years. Together with today's
/// date it stays inside the 48 bits that a record gives an instant.
pub const DURATION_MS_MAX: u64 = 1 << 44;

/// A job that asks to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// The job's bytes; never looked into.
    pub body: Bytes,
    /// Attributes that are handed out with the body.
    pub attributes: Attributes,
    /// Time until the job becomes consumable, in ms; 0 = at once.
    pub delay_ms: u64,
    /// Time until the job disappears, in ms from now; 0 = never.
    pub ttl_ms: u64,
    /// How often the job may be delivered; at least 1.
    pub tries: u16,
    /// Whether the wire shows this job's id in its versioned form.
    pub versioned_id: bool,
}

/// A new job that cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJob {
    /// A job with no try left would go to the dead letter unseen.
    #[error("tries must be at least 1")]
    NoTries,
    /// A duration is longer than [`DURATION_MS_MAX`].
    #[error("delay and ttl must be at most {DURATION_MS_MAX} ms")]
    DurationTooLong,
    /// A call takes 1 to 64 jobs.
    #[error("a call publishes 1 to 64 jobs, not {0}")]
    BatchSize(usize),
}

impl NewJob {
    /// Checks what the storage relies on.
    ///
    /// # Errors
    /// No tries, or a duration above [`DURATION_MS_MAX`].
    pub const fn check(&self) -> Result<(), InvalidJob> {
        if self.tries == 0 {
            return Err(InvalidJob::NoTries);
        }
        if self.delay_ms > DURATION_MS_MAX || self.ttl_ms > DURATION_MS_MAX {
            return Err(InvalidJob::DurationTooLong);
        }
        Ok(())
    }

    /// The size of the body and of all attributes, in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| name.len() + value.len());
        self.body.len() + attributes.sum::<usize>()
    }
}

/// A stored job, as it was when its record was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The job's name.
    pub id: JobId,
    /// The bytes that were published.
    pub body: Bytes,
    /// The attributes that were published.
    pub attributes: Attributes,
    /// Whether the wire shows the id in its versioned form.
    pub versioned_id: bool,
    /// The state the job is in.
    pub state: State,
    /// Deliveries left.
    pub tries_left: u16,
    /// Deliveries made. While leased it identifies the lease.
    pub attempt: u32,
    /// When the job was published.
    pub created_at_ms: u64,
    /// The job's next or last moment: due time while delayed, end of the lease while leased.
    pub due_at_ms: u64,
    /// When the job disappears; 0 = never.
    pub expires_at_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_needs_a_try_and_bounded_durations() {
        let job = NewJob {
            body: Bytes::new(),
            attributes: vec![],
            delay_ms: DURATION_MS_MAX,
            ttl_ms: 0,
            tries: 1,
            versioned_id: false,
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
