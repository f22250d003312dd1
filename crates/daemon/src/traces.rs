//! Traces: spans that are sent to a collector of OpenTelemetry, as OTLP over HTTP (protobuf).
//!
//! ```text
//!  request ─► FinishedSpan ─► bounded queue ─► thread of the batch processor ─► collector
//!             (only if the trace is sampled)   (batches of 512, or each second)
//! ```
//!
//! Without `traces.endpoint` there is no [`Traces`], and callers check an `Option`. A span is made once it has ended,
//! from values that its caller has anyway: no object exists while a request runs. Callers never wait: a full queue
//! drops spans.

mod collector;
mod resource;
mod settings;
mod span;
mod trace_parent;
mod waiting_spans;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, IdGenerator, RandomIdGenerator, SpanExporter as _,
    SpanProcessor,
};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use collector::CollectorClient;
pub use settings::{TracesConfig, TracesError};
pub use span::{FinishedSpan, SpanRole, wall_clock};
pub use trace_parent::TraceParent;
use waiting_spans::{CountedExporter, WaitingSpans};

use crate::own_runtime::spawn_thread;

/// Spans that wait for the collector or are being sent; about 1 KiB each.
const WAITING_SPANS_MAX: usize = 8_192;
/// Spans of one request to the collector.
const BATCH_SPANS_MAX: usize = 512;
/// The longest time until a span is sent.
const SEND_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit of one request to the collector, with its repetitions.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// Longest wait at exit for spans that are not sent yet. The time of a stop in
/// `deploy/helm/tidegate/templates/api.yaml` contains it.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Where finished spans go. Clones are the same.
#[derive(Clone)]
pub struct Traces(Arc<TracesState>);

struct TracesState {
    processor: BatchSpanProcessor,
    waiting: Arc<WaitingSpans>,
    scope: InstrumentationScope,
    ids: RandomIdGenerator,
    /// One in so many publishes without a trace parent starts a trace; 0 = none does.
    sample_one_in: u64,
    /// Ends the runtime of the requests when it is dropped.
    _running: oneshot::Sender<()>,
}

impl fmt::Debug for Traces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sample_one_in = &self.0.sample_one_in;
        out.debug_struct("Traces")
            .field("sample_one_in", sample_one_in)
            .finish_non_exhaustive()
    }
}

impl Traces {
    /// Starts the threads that send spans of `program`; `None` without an endpoint. Nothing is sent yet.
    ///
    /// # Errors
    /// The endpoint is not valid, the certificates of the system cannot be read, or the system refuses a thread.
    pub fn start(
        config: &TracesConfig,
        program: &'static str,
    ) -> Result<Option<Self>, TracesError> {
        let Some(endpoint) = config.spans_url() else {
            return Ok(None);
        };
        // Requests have a runtime of their own: in the runtime of the daemon all threads for blocking work may wait for
        // name servers that do not answer, also at exit, and then the name of the collector could not be looked up.
        let (running, ended) = oneshot::channel::<()>();
        let begin = |runtime: &Handle| Ok((runtime.clone(), async move { drop(ended.await) }));
        let started = spawn_thread("traces", begin);
        let (runtime, _) = started.map_err(|error| TracesError(error.to_string()))?;
        let client = CollectorClient::new(&endpoint, runtime, SEND_LIMIT).map_err(TracesError)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .with_timeout(SEND_LIMIT)
            .build();
        let mut exporter = exporter.map_err(|error| TracesError(error.to_string()))?;
        exporter.set_resource(&resource::resource(program));
        let waiting = Arc::new(WaitingSpans::new(WAITING_SPANS_MAX));
        let exporter = CountedExporter::new(exporter, Arc::clone(&waiting));
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(WAITING_SPANS_MAX)
            .with_max_export_batch_size(BATCH_SPANS_MAX)
            .with_scheduled_delay(SEND_INTERVAL)
            .build();
        let processor = BatchSpanProcessor::builder(exporter)
            .with_batch_config(batches)
            .build();
        let scope = InstrumentationScope::builder("tidegate").with_version(VERSION);
        Ok(Some(Self(Arc::new(TracesState {
            processor,
            waiting,
            scope: scope.build(),
            ids: RandomIdGenerator::default(),
            sample_one_in: config.sample_one_in,
            _running: running,
        }))))
    }

    /// A new trace, if it is to be sampled: a share of 1 / `traces.sample_one_in`, at random.
    #[must_use]
    pub fn sampled_root(&self) -> Option<TraceParent> {
        let one_in = self.0.sample_one_in;
        if one_in == 0 {
            return None;
        }
        let trace_id = self.0.ids.new_trace_id();
        let [.., a, b, c, d, e, f, g] = trace_id.to_bytes();
        // The last seven bytes are random in ids of any origin: W3C Trace Context, level 2.
        let random = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
        random
            .is_multiple_of(one_in)
            .then(|| TraceParent::sampled(trace_id, self.0.ids.new_span_id()))
    }

    /// A new span in the trace of `parent`.
    #[must_use]
    pub fn child_of(&self, parent: TraceParent) -> TraceParent {
        parent.with_span(self.0.ids.new_span_id())
    }

    /// Queues a span for the collector. If the queue is full, the span is dropped and counted. Does not block.
    pub fn record(&self, span: FinishedSpan<'_>) {
        let state = &self.0;
        if state.waiting.admit() {
            state.processor.on_end(span.into_data(&state.scope));
        }
    }

    /// Sends the spans that wait, for at most 2 s, and logs how many are left. Later ones are dropped. Blocks.
    pub fn close(&self) {
        // Reported by the client, if a request failed.
        let _ = self.0.processor.shutdown_with_timeout(CLOSE_LIMIT);
        let spans = self.0.waiting.count();
        if spans > 0 {
            tracing::warn!(
                spans,
                "spans were not sent to traces.endpoint before the stop"
            );
        }
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use std::thread;

    use tidegate_testkit::OtlpReceiver;

    use super::*;
    use crate::own_runtime::new_runtime;

    /// More than the runtime of a daemon has threads for blocking work.
    const LOOK_UPS: usize = 300;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stop_sends_spans_while_all_threads_for_look_ups_wait() {
        let collector = OtlpReceiver::start().await;
        // A name, which is looked up.
        let endpoint = format!("http://localhost:{}", collector.address().port());
        let daemon = thread::spawn(move || {
            let runtime = new_runtime("daemon").unwrap();
            let inside = runtime.enter();
            for _ in 0..LOOK_UPS {
                runtime.spawn_blocking(|| thread::park_timeout(CLOSE_LIMIT * 3));
            }
            let config = TracesConfig {
                endpoint,
                sample_one_in: 1,
            };
            let traces = Traces::start(&config, "tidegate-test").unwrap().unwrap();
            let context = traces.sampled_root().unwrap();
            let (role, begun) = (SpanRole::Internal, wall_clock());
            traces.record(FinishedSpan::new(role, context, "stop", "test", begun));
            traces.close();
            drop(inside);
            runtime.shutdown_background();
        });
        daemon.join().unwrap();
        assert_eq!(collector.spans().len(), 1);
    }
}
