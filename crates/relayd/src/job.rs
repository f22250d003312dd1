//! Jobs on their way through a relay.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tidegate_daemon::traces::TraceParent;
use tokio::time::Instant;

/// The receipt by which the source recognises the delivery of a job: a lease, or on the lmstfy wire the id of the job.
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
    /// When it expires in the source; `None` = never, or the sink need not know.
    pub(crate) expires_at: Option<Instant>,
    /// How often the sink may deliver it, if the source counts deliveries.
    pub(crate) deliveries_left: Option<u16>,
}

impl RelayJob {
    /// The value of the header `traceparent`: the span of the relay, or the span of the delivery.
    pub(crate) fn trace_parent(&self) -> Option<String> {
        let span = self.span.or(self.delivery)?;
        Some(span.to_string())
    }
}

#[cfg(test)]
impl RelayJob {
    /// An empty job that is not traced.
    pub(crate) fn of_test(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            receipt: SourceReceipt(id.to_owned()),
            payload: Bytes::new(),
            content_type: "text/plain".to_owned(),
            attributes: BTreeMap::new(),
            delivery: None,
            span: None,
            held_until: Instant::now() + Duration::from_secs(60),
            expires_at: None,
            deliveries_left: None,
        }
    }

    /// A job of a relay that is traced, a job whose delivery alone is traced, and a job without a trace, each with the
    /// value of its header `traceparent`.
    pub(crate) fn of_test_with_traces() -> [(Self, Option<String>); 3] {
        let [span, delivery] = [1, 2].map(|id| Some(TraceParent::from_ids(id, 3)));
        let job = |span, delivery| Self {
            span,
            delivery,
            ..Self::of_test("id")
        };
        let header = |trace: &str| Some(format!("00-{trace:0>32}-0000000000000003-01"));
        [
            (job(span, delivery), header("1")),
            (job(None, delivery), header("2")),
            (job(None, None), None),
        ]
    }
}

/// The outcome of a job in the sink.
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
