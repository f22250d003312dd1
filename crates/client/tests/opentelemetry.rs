//! Spans of producers and workers, as OpenTelemetry exports them.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tidegate::{Client, Fail, Job, Worker};
use tidegate_testkit::{NativeClient, OtlpReceiver, Stack};
use tokio::sync::oneshot;
use tracing::Instrument;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt;

const NAMESPACE: &str = "traces";
const LIMIT: Duration = Duration::from_secs(30);

/// A client in a thread whose spans are kept.
struct TracedClient {
    client: Client,
    exporter: InMemorySpanExporter,
    guard: DefaultGuard,
    _provider: SdkTracerProvider,
}

impl TracedClient {
    async fn new(stack: &Stack) -> Self {
        let native = NativeClient::new(stack.api(0), NAMESPACE).await;
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let client = Client::builder(stack.api(0).url())
            .key(native.key())
            .namespace(NAMESPACE)
            .build();
        Self {
            client: client.unwrap(),
            exporter,
            guard,
            _provider: provider,
        }
    }
}

fn span<'a>(spans: &'a [SpanData], name: &str) -> &'a SpanData {
    let mut named = spans.iter().filter(|span| span.name == name);
    let found = named
        .next()
        .unwrap_or_else(|| panic!("no span {name}: {spans:?}"));
    assert!(named.next().is_none(), "one span {name}");
    found
}

/// All tasks run in the thread of the test, whose subscriber is this one.
#[tokio::test]
async fn the_span_of_a_worker_links_to_that_of_the_producer() {
    let stack = Stack::builder().start().await;
    let TracedClient {
        client,
        exporter,
        guard,
        _provider,
    } = TracedClient::new(&stack).await;
    let producing = async {
        client.publish_raw("q", "x", "text/plain").await.unwrap();
        // Outside of the wire format: the job runs, without a link.
        let other = client.publish_raw("q", "y", "text/plain");
        other.attribute("traceparent", "not-one").await.unwrap();
    };
    producing.instrument(tracing::info_span!("checkout")).await;

    let (sender, receiver) = oneshot::channel();
    let sender = std::sync::Mutex::new((0, Some(sender)));
    let handler = move |_: Job| {
        let mut state = sender.lock().unwrap();
        state.0 += 1;
        if state.0 == 2 {
            state.1.take().unwrap().send(()).unwrap();
        }
        async { Ok::<(), Fail>(()) }
    };
    let worker = Worker::new(client).handle_raw("q", handler);
    let running = worker.run_until(async { receiver.await.unwrap() });
    tokio::time::timeout(LIMIT, running).await.unwrap().unwrap();
    drop(guard);
    let spans = exporter.get_finished_spans().unwrap();
    let checkout = &span(&spans, "checkout").span_context;
    let processed: Vec<_> = spans.iter().filter(|span| span.name == "process").collect();
    assert_eq!(processed.len(), 2);
    let links: Vec<_> = processed
        .iter()
        .flat_map(|span| span.links.iter())
        .collect();
    assert_eq!(links.len(), 1, "{links:?}");
    let link = &links[0].span_context;
    assert_eq!(
        (link.trace_id(), link.span_id()),
        (checkout.trace_id(), checkout.span_id())
    );
    let own = processed.iter().map(|span| span.span_context.trace_id());
    assert!(
        own.into_iter().all(|trace| trace != checkout.trace_id()),
        "a trace of its own"
    );
    stack.finish().await;
}

#[tokio::test]
async fn with_a_collector_the_trace_goes_through_the_server() {
    let collector = OtlpReceiver::start().await;
    let stack = Stack::builder()
        .api_config(&collector.settings(0))
        .start()
        .await;
    let TracedClient {
        client,
        exporter,
        guard,
        _provider,
    } = TracedClient::new(&stack).await;
    let publishing = async { client.publish_raw("q", "x", "text/plain").await.unwrap() };
    publishing.instrument(tracing::info_span!("order")).await;
    let (sender, receiver) = oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let handler = move |job: Job| {
        let delivery = job.delivery_span().map(str::to_owned);
        sender
            .lock()
            .unwrap()
            .take()
            .unwrap()
            .send(delivery)
            .unwrap();
        async { Ok::<(), Fail>(()) }
    };
    let worker = Worker::new(client).handle_raw("q", handler);
    let (shown, seen) = oneshot::channel();
    let running = worker.run_until(async { shown.send(receiver.await.unwrap()).unwrap() });
    tokio::time::timeout(LIMIT, running).await.unwrap().unwrap();
    drop(guard);
    let spans = exporter.get_finished_spans().unwrap();
    let (order, process) = (span(&spans, "order"), span(&spans, "process"));
    let publish = collector.span("publish q").await;
    let (trace, id) = (order.span_context.trace_id(), order.span_context.span_id());
    assert_eq!(publish.trace_id, trace.to_string());
    assert_eq!(publish.parent_id, id.to_string());
    let delivery = collector.span("deliver q").await;
    assert_eq!(seen.await.unwrap(), Some(delivery.trace_parent()));
    assert_eq!(
        process.span_context.trace_id().to_string(),
        delivery.trace_id
    );
    assert_eq!(process.parent_span_id.to_string(), delivery.span_id);
    assert_eq!(process.links.iter().count(), 1, "the producer");
    let ack = collector.span("ack q").await;
    assert_eq!(ack.parent_id, delivery.span_id);
    stack.finish().await;
}
