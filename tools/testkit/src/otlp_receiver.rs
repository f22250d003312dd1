//! A collector of spans: OTLP over HTTP, as protobuf.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::eventually::eventually;

const LIMIT: Duration = Duration::from_secs(20);

/// A span as it arrived.
#[derive(Debug, Clone)]
pub struct ReceivedSpan {
    /// The name of the program that sent it.
    pub service: String,
    pub name: String,
    /// Its trace, its own id and its parent, in hexadecimal; no parent is an empty text.
    pub trace_id: String,
    /// See `trace_id`.
    pub span_id: String,
    /// See `trace_id`.
    pub parent_id: String,
    /// Traces and spans that it links to.
    pub links: Vec<(String, String)>,
    /// Its kind, as protobuf numbers it: 1 internal, 3 client, 4 producer, 5 consumer.
    pub kind: i32,
    /// Whether it has failed.
    pub is_error: bool,
    /// How long it took, in ns.
    pub nanoseconds: u64,
    attributes: Vec<(String, String)>,
}

impl ReceivedSpan {
    fn new(service: &str, span: Span) -> Self {
        let links = span.links.iter();
        Self {
            service: service.to_owned(),
            name: span.name,
            trace_id: hex(&span.trace_id),
            span_id: hex(&span.span_id),
            parent_id: hex(&span.parent_span_id),
            links: links
                .map(|link| (hex(&link.trace_id), hex(&link.span_id)))
                .collect(),
            kind: span.kind,
            is_error: span.status.is_some_and(|status| status.code == 2),
            nanoseconds: span.end_time_unix_nano - span.start_time_unix_nano,
            attributes: pairs(span.attributes),
        }
    }

    /// An attribute as text; empty if there is none.
    #[must_use]
    pub fn attribute(&self, name: &str) -> &str {
        let mut found = self.attributes.iter().filter(|(other, _)| other == name);
        found.next().map_or("", |(_, value)| value.as_str())
    }

    /// The header `traceparent` that names it.
    #[must_use]
    pub fn trace_parent(&self) -> String {
        format!("00-{}-{}-01", self.trace_id, self.span_id)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pairs(attributes: Vec<KeyValue>) -> Vec<(String, String)> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let attributes = attributes.into_iter();
    attributes
        .map(|pair| (pair.key, text(pair.value)))
        .collect()
}

/// The spans that have arrived, and how requests are answered.
#[derive(Debug, Default)]
struct ReceiverState {
    spans: Mutex<Vec<ReceivedSpan>>,
    /// How long it takes to answer, in ms.
    delay: AtomicU64,
}

/// A collector that keeps all spans. Dropping it ends it.
#[derive(Debug)]
pub struct OtlpReceiver {
    address: SocketAddr,
    state: Arc<ReceiverState>,
    serving: JoinHandle<()>,
}

impl OtlpReceiver {
    /// Starts a collector on a free port of this machine.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::<ReceiverState>::default();
        let router = Router::new()
            .route("/v1/traces", post(receive))
            .with_state(Arc::clone(&state));
        let serving = tokio::spawn(async move {
            // It does not end.
            let _ = axum::serve(listener, router).await;
        });
        Self {
            address,
            state,
            serving,
        }
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Settings of a daemon that sends spans here, and starts a trace for a share of 1 / `sample_one_in` of publishes.
    #[must_use]
    pub fn settings(&self, sample_one_in: u64) -> String {
        format!(
            "[traces]\nendpoint = \"http://{}\"\nsample_one_in = {sample_one_in}\n",
            self.address
        )
    }

    /// Makes it take so long for each later request. Spans arrive at the end of that time.
    pub fn set_delay(&self, delay: Duration) {
        let milliseconds = delay.as_millis().try_into().unwrap_or(u64::MAX);
        self.state.delay.store(milliseconds, Ordering::Relaxed);
    }

    /// The spans that have arrived.
    #[must_use]
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        lock(&self.state.spans).clone()
    }

    /// Waits until exactly `count` spans with this name have arrived, and returns them.
    ///
    /// # Panics
    /// If that takes more than 20 s.
    pub async fn named(&self, name: &str, count: usize) -> Vec<ReceivedSpan> {
        eventually(&format!("{count} spans {name}"), LIMIT, async || {
            let mut spans = self.spans();
            spans.retain(|span| span.name == name);
            if spans.len() == count {
                Ok(spans)
            } else {
                Err(format!("{:?}", self.spans()))
            }
        })
        .await
    }

    /// Waits until one span with this name has arrived, and returns it.
    ///
    /// # Panics
    /// If that takes more than 20 s.
    pub async fn span(&self, name: &str) -> ReceivedSpan {
        self.named(name, 1).await.remove(0)
    }
}

impl Drop for OtlpReceiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(spans: &Mutex<Vec<ReceivedSpan>>) -> MutexGuard<'_, Vec<ReceivedSpan>> {
    spans.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn receive(
    State(state): State<Arc<ReceiverState>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if headers
        .get(header::CONTENT_TYPE)
        .is_none_or(|kind| kind != "application/x-protobuf")
    {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    let Ok(request) = ExportTraceServiceRequest::decode(body) else {
        return StatusCode::BAD_REQUEST;
    };
    let delay = Duration::from_millis(state.delay.load(Ordering::Relaxed));
    // Ends here if the sender does not wait for the answer.
    tokio::time::sleep(delay).await;
    for of_resource in request.resource_spans {
        let resource = pairs(of_resource.resource.unwrap_or_default().attributes);
        let name = resource.iter().find(|(name, _)| name == "service.name");
        let service = name.map_or("", |(_, name)| name.as_str());
        let received = of_resource.scope_spans.into_iter().flat_map(|of_scope| {
            let spans = of_scope.spans.into_iter();
            spans.map(|span| ReceivedSpan::new(service, span))
        });
        lock(&state.spans).extend(received);
    }
    StatusCode::OK
}
