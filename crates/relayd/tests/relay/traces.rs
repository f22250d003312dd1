//! What passes through a relay continues its trace.

use tidegate_testkit::{NativeClient, OtlpReceiver, Stack, eventually};

use crate::endpoint::{ANY_PORT, WebhookEndpoint};
use crate::fixture::{LIMIT, QUEUE, RelayDaemon, RelayedQueue, SHORT};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn publish(native: &NativeClient, attributes: usize) {
    let path = format!("/queues/{QUEUE}/jobs");
    let attributes: Vec<String> = (0..attributes)
        .map(|number| format!("Job-Attr-n{number}"))
        .collect();
    let mut headers = vec![("traceparent", CALLER)];
    headers.extend(attributes.iter().map(|name| (name.as_str(), "a")));
    let answer = native.send("POST", &path, &headers, b"fine").await;
    answer.expect(201);
}

/// Relays a job that is traced to a sink, and returns the `traceparent` that the sink should have got.
pub(crate) async fn relay_traced_job(sink: &str) -> String {
    let collector = OtlpReceiver::start().await;
    let traces = collector.settings(0);
    let stack = Stack::builder().api_config(&traces).start().await;
    let queue = RelayedQueue::new(&stack, "relay-traced").await;
    let source = queue.as_end("source", QUEUE);
    let relay = RelayDaemon::start(&[SHORT, &source, sink, &traces]).await;
    publish(&queue.native, 1).await;
    queue.drained().await;
    let span = eventually("the span of the relay arrives", LIMIT, async || {
        let mut spans = collector.spans();
        spans.retain(|span| span.name == "relay r");
        spans.pop().ok_or("none")
    })
    .await;
    drop(relay);
    stack.finish().await;
    span.trace_parent()
}

/// The header of the only request.
async fn header_of(endpoint: &WebhookEndpoint) -> String {
    let requests = eventually("the job is passed on", LIMIT, async || {
        let received = endpoint.received();
        if received.len() == 1 {
            Ok(received)
        } else {
            Err(received.len())
        }
    })
    .await;
    requests[0].headers["traceparent"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_gets_the_span_of_the_relay_or_of_the_delivery() {
    let collector = OtlpReceiver::start().await;
    let traces = collector.settings(0);
    let stack = Stack::builder().api_config(&traces).start().await;
    for (namespace, is_traced) in [("relay-traced", true), ("relay-untraced", false)] {
        let queue = RelayedQueue::new(&stack, namespace).await;
        let endpoint = WebhookEndpoint::start(ANY_PORT).await;
        let sink = format!(
            "[relay.r.sink]\nkind = \"webhook\"\nurl = \"http://{}/hook\"\nallow_http = true\n\
             allow_networks = [\"127.0.0.0/8\"]\ntime_limit = \"1s\"\n",
            endpoint.address
        );
        let traces = if is_traced { traces.as_str() } else { "" };
        let source = queue.as_end("source", QUEUE);
        let relay = RelayDaemon::start(&[SHORT, &source, &sink, traces]).await;
        publish(&queue.native, 1).await;
        let header = header_of(&endpoint).await;
        queue.drained().await;
        let spans = eventually("the spans arrive", LIMIT, async || {
            let mut spans = collector.spans();
            let trace = &header[3..35];
            spans.retain(|span| span.trace_id == trace);
            let expected = if is_traced { 3 } else { 2 };
            if spans.len() == expected {
                Ok(spans)
            } else {
                Err(format!("{spans:?}"))
            }
        })
        .await;
        let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
        let (delivery, ack) = (named("deliver q"), named("ack q"));
        assert_eq!(ack.parent_id, delivery.span_id);
        if is_traced {
            let span = named("relay r");
            assert_eq!(header, span.trace_parent());
            assert_eq!(span.parent_id, delivery.span_id);
            assert_eq!(
                (span.service.as_str(), span.is_error),
                ("tidegate-relayd", false)
            );
        } else {
            assert_eq!(header, delivery.trace_parent());
        }
        drop(relay);
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tidegate_gets_the_span_if_there_is_room_for_an_attribute() {
    const SINK_QUEUE: &str = "arrived";
    let collector = OtlpReceiver::start().await;
    let traces = collector.settings(0);
    let stack = Stack::builder().api_config(&traces).start().await;
    let queue = RelayedQueue::new(&stack, "relay-attributes").await;
    let source = queue.as_end("source", QUEUE);
    let sink = format!("{}time_limit = \"2s\"\n", queue.as_end("sink", SINK_QUEUE));
    let relay = RelayDaemon::start(&[SHORT, &source, &sink, &traces]).await;
    for attributes in [31, 32] {
        publish(&queue.native, attributes).await;
    }
    relay
        .status_has("both jobs are confirmed or dead", |status| {
            let count = |name: &str| status[name].as_u64().unwrap_or(0);
            count("confirmed") + count("dead") == 2 && count("held") == 0
        })
        .await;
    assert_eq!(relay.status().await["confirmed"], 2);
    let spans = eventually("the spans of the relay arrive", LIMIT, async || {
        let mut spans = collector.spans();
        spans.retain(|span| span.name == "relay r");
        match spans.len() {
            2 => Ok(spans),
            other => Err(other),
        }
    })
    .await;
    let mut headers = Vec::new();
    for job in queue.native.reserve(SINK_QUEUE, 2).await {
        let attributes = job["attributes"].as_object().unwrap();
        assert_eq!(attributes.len(), 32, "{job}");
        headers.extend(attributes.get("traceparent").cloned());
    }
    assert_eq!(headers.len(), 1, "only one job has room: {headers:?}");
    assert!(
        spans.iter().any(|span| headers[0] == span.trace_parent()),
        "{headers:?} {spans:?}"
    );
    drop(relay);
    stack.finish().await;
}
