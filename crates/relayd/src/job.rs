//! Jobs on their way through a relay.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tidegate_service::traces::TraceParent;
use tokio::time::Instant;

/// What the source needs to recognise the delivery of a job: a lease, or on the lmstfy wire the id of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceReceipt(pub(crate) String);

/// A job that the relay holds.
#[derive(Debug, Clone)]
pub(crate) struct RelayJob {
    /// Its id in the source, which the sink receives.
    pub(crate) id: String,
    pub(crate) receipt: SourceReceipt,
    pub(crate) payload: Bytes,
    pub(crate) content_type: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// The span of its delivery to this relay, if that is traced.
    pub(crate) delivery: Option<TraceParent>,
    /// The span of this relay, if the call to the sink is traced.
    pub(crate) span: Option<TraceParent>,
    /// Its lease is valid until then.
    pub(crate) held_until: Instant,
}

impl RelayJob {
    /// The value of the header `traceparent`: the span of the relay, or that of the delivery.
    pub(crate) fn trace_parent(&self) -> Option<String> {
        let span = self.span.or(self.delivery)?;
        Some(span.to_string())
    }
}

/// What became of a job in the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    /// The sink has it.
    Confirmed,
    /// The sink does not take this job now.
    Rejected {
        error: String,
        /// When the sink may take it. By default as in the retry policy of its queue.
        retry_in: Option<Duration>,
        /// Whether the sink will never take it.
        is_permanent: bool,
    },
    /// The sink takes no job at all, and did probably not take this one.
    Unavailable(String),
}

impl DeliveryOutcome {
    pub(crate) fn rejected(error: impl Into<String>) -> Self {
        Self::Rejected {
            error: error.into(),
            retry_in: None,
            is_permanent: false,
        }
    }

    pub(crate) fn permanent(error: impl Into<String>) -> Self {
        Self::Rejected {
            error: error.into(),
            retry_in: None,
            is_permanent: true,
        }
    }
}
