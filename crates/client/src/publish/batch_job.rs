//! A job that is published: payload, attributes and options.

use std::time::Duration;

use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::publish::JobOptions;
use tidegate_core::v1::schedule::{Schedule, ScheduleJob};
use tidegate_core::v1::values::{
    ContentType, DurationMs, IdempotencyKey, JobAttributes, JobPayload,
};
use tidegate_core::{IfExists, QueueName};
use ulid::Ulid;

use crate::error::{Error, RepeatSafety};
use crate::task::Task;

/// The attribute with the trace parent of the producer.
pub(crate) const TRACE_PARENT: &str = "traceparent";

/// A job to publish, with its options. Invalid options are reported when it is published.
#[derive(Debug)]
pub struct BatchJob(Result<JobToSend, Error>);

/// A job whose parts are valid.
#[derive(Debug)]
pub(crate) struct JobToSend {
    pub(crate) queue: QueueName,
    pub(crate) payload: JobPayload,
    pub(crate) attributes: JobAttributes,
    pub(crate) options: JobOptions,
}

impl<T: Task> From<T> for BatchJob {
    fn from(task: T) -> Self {
        Self::of(&task)
    }
}

pub(super) fn duration(field: &str, value: Duration) -> Result<DurationMs, Error> {
    let converted = DurationMs::try_from(value);
    converted.map_err(|invalid| InvalidRequest::from(invalid).at(field).into())
}

impl BatchJob {
    /// A job with this task.
    pub fn of<T: Task>(task: &T) -> Self {
        let bytes = serde_json::to_vec(task).map_err(Error::Encode);
        Self(bytes.and_then(|bytes| {
            let content_type = ContentType::JSON;
            JobToSend::new(
                T::QUEUE,
                JobPayload {
                    bytes,
                    content_type,
                },
            )
        }))
    }

    /// A job with these bytes. The content type is like `text/plain; charset=utf-8`.
    #[must_use]
    pub fn raw(queue: &str, payload: impl Into<Vec<u8>>, content_type: &str) -> Self {
        let content_type = content_type.parse().map_err(Error::from);
        Self(content_type.and_then(|content_type| {
            let bytes = payload.into();
            JobToSend::new(
                queue,
                JobPayload {
                    bytes,
                    content_type,
                },
            )
        }))
    }

    pub(super) fn set(mut self, set: impl FnOnce(&mut JobToSend) -> Result<(), Error>) -> Self {
        if let Ok(job) = &mut self.0
            && let Err(error) = set(job)
        {
            self.0 = Err(error);
        }
        self
    }

    pub(super) fn set_option(self, set: impl FnOnce(&mut JobOptions) -> Result<(), Error>) -> Self {
        self.set(|job| set(&mut job.options))
    }

    /// A schedule that publishes this job, without times: set `cron` or `every`.
    ///
    /// # Errors
    /// The job is not valid, or has an option that the job of a schedule does not have: `run_at`, `key`, `if_exists`,
    /// `durability` or `idempotent`.
    pub fn into_schedule(self) -> Result<Schedule, Error> {
        let JobToSend {
            queue,
            payload,
            attributes,
            options,
        } = self.0?;
        let job = ScheduleJob::new(payload, attributes, options)?;
        Ok(Schedule::new(queue, job))
    }

    /// The valid job, or the error.
    pub(crate) fn into_job(self) -> Result<JobToSend, Error> {
        self.0
    }
}

/// Options that the client sets by itself.
pub(super) trait RepeatableOptions {
    fn make_idempotent(&mut self) -> Result<(), Error>;
}

impl RepeatableOptions for JobOptions {
    fn make_idempotent(&mut self) -> Result<(), Error> {
        if self.idempotency_key.is_none() {
            let key: IdempotencyKey = Ulid::generate().to_string().try_into()?;
            self.idempotency_key = Some(key);
        }
        Ok(())
    }
}

impl JobToSend {
    fn new(queue: &str, payload: JobPayload) -> Result<Self, Error> {
        Ok(Self {
            queue: queue.parse()?,
            payload,
            attributes: JobAttributes::default(),
            options: JobOptions::default(),
        })
    }

    /// Adds what the client knows besides: the trace parent; and an idempotency key if a repetition would otherwise
    /// find the job of the first request and be rejected.
    pub(crate) fn complete(&mut self, trace_parent: Option<String>) -> Result<(), Error> {
        if let Some(trace_parent) = trace_parent {
            let attributes = &mut self.attributes.0;
            attributes
                .entry(TRACE_PARENT.to_owned())
                .or_insert(trace_parent);
        }
        if self.options.if_exists == Some(IfExists::Reject) {
            self.options.make_idempotent()?;
        }
        Ok(())
    }

    pub(crate) const fn repeat_safety(&self) -> RepeatSafety {
        if self.options.key.is_some() || self.options.idempotency_key.is_some() {
            RepeatSafety::Repeatable
        } else {
            RepeatSafety::OnlyIfNotApplied
        }
    }
}
