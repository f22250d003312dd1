//! Spans of publishes, deliveries and settlements, which link processes. Without a collector there are none.
//!
//! ```text
//!  trace of the producer:   … ─► publish ── stored with the job as the attribute `:p`
//!                                   ▲ link
//!  trace of a delivery:     deliver ┴► spans of the worker
//!                              └─────► ack, fail, release
//! ```
//!
//! A delivery is a separate trace: a job may run days after its publish, and several times. The ids of its span are
//! derived from the queue, the job and the attempt, and its lease says that there is one. So the process that gets the
//! ack knows the span, whichever process has delivered the job, and nothing is stored.

use std::time::SystemTime;

use axum::http::HeaderMap;
use tidegate_core::{Job, JobId, NewJob, QueueKey, TRACE_PARENT_ATTRIBUTE};
use tidegate_daemon::traces::{FinishedSpan, SpanRole, TraceParent, Traces, wall_clock};
use tidegate_store::LeasedJob;
use xxhash_rust::xxh3::Xxh3Default;

use crate::app::App;
use crate::http::context::RequestContext;

/// The header with the span of the caller, and of a delivery.
pub(crate) const TRACE_PARENT: &str = "traceparent";

const MESSAGE_ID: &str = "messaging.message.id";
const BATCH_COUNT: &str = "messaging.batch.message_count";
const NAMESPACE: &str = "tidegate.namespace";
const ATTEMPT: &str = "tidegate.attempt";
const OUTCOME: &str = "tidegate.outcome";
const LATENESS_MS: &str = "tidegate.lateness_ms";
const REQUEST_ID: &str = "tidegate.request_id";

/// The span of the caller, if it is sampled. `Err` if there is a valid header that says that it is not.
fn caller(headers: &HeaderMap) -> Result<Option<TraceParent>, NotSampled> {
    let Some(text) = headers.get(TRACE_PARENT).and_then(|it| it.to_str().ok()) else {
        return Ok(None);
    };
    match (TraceParent::read_sampled(text), text.parse::<TraceParent>()) {
        (None, Ok(_)) => Err(NotSampled),
        (sampled, _) => Ok(sampled),
    }
}

/// The caller has decided that its trace is not recorded.
struct NotSampled;

/// The span of a publish that is traced.
pub(crate) struct PublishSpan {
    traces: Traces,
    context: TraceParent,
    parent: Option<TraceParent>,
    began_at: SystemTime,
    request_id: String,
}

impl PublishSpan {
    /// Begins the span of a publish: if the caller has a span that is sampled, or at random. `None` for all others.
    pub(crate) fn begin(app: &App, headers: &HeaderMap, request: &RequestContext) -> Option<Self> {
        let traces = app.traces.as_ref()?;
        let parent = caller(headers).ok()?;
        let context = match parent {
            Some(parent) => traces.child_of(parent),
            None => traces.sampled_root()?,
        };
        request.set_trace(context);
        Some(Self {
            traces: traces.clone(),
            context,
            parent,
            began_at: wall_clock(),
            request_id: request.id.to_string(),
        })
    }

    /// Stores the span with a job, so that its deliveries link to it.
    pub(crate) fn add_to(&self, job: &mut NewJob) {
        let text = self.context.to_string();
        job.attributes
            .push((TRACE_PARENT_ATTRIBUTE.to_owned(), text));
    }

    /// Ends the span: jobs were published, or not. `id` is the id of a single job.
    pub(crate) fn end(
        self,
        queue: &QueueKey,
        jobs: usize,
        published: Result<Option<JobId>, String>,
    ) {
        let name = queue.queue.as_str();
        let mut span =
            FinishedSpan::new(SpanRole::Send, self.context, "publish", name, self.began_at)
                .with_parent(self.parent)
                .with(NAMESPACE, queue.namespace.to_string())
                .with(REQUEST_ID, self.request_id);
        if jobs != 1 {
            span = span.with(BATCH_COUNT, jobs as i64);
        }
        if let Ok(Some(id)) = &published {
            span = span.with(MESSAGE_ID, id.to_string());
        }
        self.traces.record(span.with_error(published.err()));
    }
}

/// The span of the publish of a job that was delivered, if it was traced.
fn producer(job: &Job) -> Option<TraceParent> {
    TraceParent::read_sampled(job.attribute(TRACE_PARENT_ATTRIBUTE)?)
}

/// The span of a delivery. Every process derives the same one.
fn delivery(queue: &QueueKey, job: LeasedJob) -> TraceParent {
    let mut hash = Xxh3Default::new();
    hash.update(queue.namespace.as_str().as_bytes());
    hash.update(b"/");
    hash.update(queue.queue.as_str().as_bytes());
    hash.update(job.id.to_string().as_bytes());
    hash.update(&job.attempt.to_be_bytes());
    let trace_id = hash.digest128();
    hash.update(b"deliver");
    TraceParent::from_ids(trace_id, hash.digest())
}

/// Records the delivery of a job that was traced when it was published, and returns its span. `now_ms` is the clock of
/// Redis.
pub(crate) fn record_delivery(
    traces: Option<&Traces>,
    queue: &QueueKey,
    job: &Job,
    now_ms: u64,
) -> Option<TraceParent> {
    let traces = traces?;
    let producer = producer(job)?;
    let leased = LeasedJob {
        id: job.id,
        attempt: job.attempt,
    };
    let context = delivery(queue, leased);
    let name = queue.queue.as_str();
    let span = FinishedSpan::new(SpanRole::Receive, context, "deliver", name, wall_clock())
        .with_link(producer)
        .with(NAMESPACE, queue.namespace.to_string())
        .with(MESSAGE_ID, job.id.to_string())
        .with(ATTEMPT, i64::from(job.attempt))
        .with(LATENESS_MS, signed(now_ms.saturating_sub(job.run_at_ms)));
    traces.record(span);
    Some(context)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The spans of the leases that a request ends.
pub(crate) struct SettleSpans {
    traces: Traces,
    operation: &'static str,
    began_at: SystemTime,
    caller: Option<TraceParent>,
    request_id: String,
}

impl SettleSpans {
    /// `None` without a collector.
    pub(crate) fn begin(
        app: &App,
        headers: &HeaderMap,
        request: &RequestContext,
        operation: &'static str,
    ) -> Option<Self> {
        let traces = app.traces.as_ref()?;
        Some(Self {
            traces: traces.clone(),
            operation,
            began_at: wall_clock(),
            caller: caller(headers).ok().flatten(),
            request_id: request.id.to_string(),
        })
    }

    /// Records the end of a delivery that is traced. Its parent is the span of the caller, if that is in the trace of
    /// the delivery; else the delivery.
    pub(crate) fn record(
        &self,
        request: &RequestContext,
        queue: &QueueKey,
        job: LeasedJob,
        outcome: &'static str,
    ) {
        let delivery = delivery(queue, job);
        let context = self.traces.child_of(delivery);
        request.set_trace(context);
        let is_inside = |caller: &TraceParent| caller.trace_id() == delivery.trace_id();
        let parent = self.caller.filter(is_inside).unwrap_or(delivery);
        let name = queue.queue.as_str();
        let mut span = FinishedSpan::new(
            SpanRole::Settle,
            context,
            self.operation,
            name,
            self.began_at,
        )
        .with_parent(Some(parent))
        .with(NAMESPACE, queue.namespace.to_string())
        .with(MESSAGE_ID, job.id.to_string())
        .with(ATTEMPT, i64::from(job.attempt))
        .with(OUTCOME, outcome)
        .with(REQUEST_ID, self.request_id.clone());
        if let Some(other) = self.caller.filter(|caller| !is_inside(caller)) {
            span = span.with_link(other);
        }
        self.traces.record(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delivery_has_other_ids_and_every_process_the_same_ones() {
        let job = LeasedJob {
            id: JobId::new(1_770_000_000_000, 17, 1, 2),
            attempt: 1,
        };
        let key = |text| QueueKey::try_from(text).unwrap();
        let first = delivery(&key("shop/orders"), job);
        assert_eq!(first, delivery(&key("shop/orders"), job));
        for (queue, attempt) in [("shop/orders", 2), ("shop/order", 1), ("shops/orders", 1)] {
            let other = delivery(&key(queue), LeasedJob { attempt, ..job });
            assert_ne!(first.trace_id(), other.trace_id(), "{queue} {attempt}");
        }
    }
}
