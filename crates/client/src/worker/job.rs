//! A job that a worker runs.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::de::DeserializeOwned;
use tidegate_core::JobId;
use tidegate_core::v1::consume::LeasedJobView;
use tidegate_core::v1::values::{LeaseText, Timestamp};
use tokio_util::sync::CancellationToken;

use super::data::DataMap;
use crate::publish::TRACE_PARENT;

/// Why the token of a job is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelReason {
    /// The producer requested that the job be cancelled. Stop, and return any [`Fail`](crate::Fail): then the job is
    /// deleted.
    Requested,
    /// The worker does not hold the job any more: its lease expired, or the job was revoked. The result of the handler
    /// has no effect.
    LeaseLost,
}

/// A job that this worker runs. Clones are the same job.
#[derive(Clone)]
pub struct Job(Arc<RunningJobState>);

struct RunningJobState {
    view: LeasedJobView,
    token: CancellationToken,
    reason: OnceLock<CancelReason>,
    data: Arc<DataMap>,
}

impl fmt::Debug for Job {
    /// Without the payload, which may be large or private.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Job")
            .field("id", &self.id())
            .field("queue", &self.queue())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}

impl Job {
    pub(super) fn new(view: LeasedJobView, data: Arc<DataMap>) -> Self {
        Self(Arc::new(RunningJobState {
            view,
            token: CancellationToken::new(),
            reason: OnceLock::new(),
            data,
        }))
    }

    /// The id of the job.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.0.view.id
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.0.view.queue.as_str()
    }

    /// Its key, if it has one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.view.key.as_ref().map(|key| key.as_str())
    }

    /// The number of this attempt, from 1. It only grows: together with the id it is a fencing token.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.view.attempt
    }

    /// How many attempts have failed.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.0.view.failures
    }

    /// When it was due.
    #[must_use]
    pub fn run_at(&self) -> Timestamp {
        self.0.view.run_at
    }

    /// When it was published.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        self.0.view.created_at
    }

    /// An attribute, if the job has it.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.0.view.attributes.0.get(name).map(String::as_str)
    }

    /// All attributes, by name.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        let attributes = self.0.view.attributes.0.iter();
        attributes.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The content type of the payload, such as `application/json`.
    #[must_use]
    pub fn content_type(&self) -> &str {
        self.0.view.content_type.as_str()
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        let view = &self.0.view;
        match (&view.payload, &view.payload_base64) {
            (Some(json), _) => json.as_str().as_bytes(),
            (None, Some(bytes)) => &bytes.0,
            (None, None) => &[],
        }
    }

    /// Reads the payload as JSON.
    ///
    /// # Errors
    /// It is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.payload())
    }

    /// A token that is cancelled when the handler should stop: the lease is lost, or the producer requested a cancel.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.token
    }

    /// Why the token is cancelled; `None` if it is not.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.0.reason.get().copied()
    }

    /// The span of this delivery, as in the header `traceparent`, if the server traces it: the parent of the span in
    /// which the handler runs.
    #[must_use]
    pub fn delivery_span(&self) -> Option<&str> {
        self.0.view.traceparent.as_deref()
    }

    pub(super) fn cancel(&self, reason: CancelReason) {
        let _ = self.0.reason.set(reason);
        self.0.token.cancel();
    }

    pub(super) fn lease(&self) -> &LeaseText {
        &self.0.view.lease
    }

    pub(super) fn data(&self) -> &DataMap {
        &self.0.data
    }

    /// The trace parent of the producer's span.
    pub(super) fn trace_parent(&self) -> Option<&str> {
        self.attribute(TRACE_PARENT)
    }
}
