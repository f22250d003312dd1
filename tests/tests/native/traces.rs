//! Traces: publish, delivery and ack are linked over several processes, and spans reach a collector.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::{
    Daemon, DaemonProgram, NativeClient, OtlpReceiver, ReceivedSpan, Stack, eventually,
    print_figure, start_redis,
};
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(20);
/// The span of a caller.
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const CALLER_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER_SPAN: &str = "b7ad6b7169203331";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
/// Counts spans that do not reach the collector.
const DROPPED: &str = "tidegate_spans_dropped_total";
const JSON_LOG: &str = "[log]\nformat = \"json\"\naccess = true\n";

async fn publish(native: &NativeClient, queue: &str, trace_parent: Option<&str>) -> Value {
    let headers: Vec<_> = trace_parent
        .map(|it| ("traceparent", it))
        .into_iter()
        .collect();
    let path = format!("/queues/{queue}/jobs");
    let answer = native.send("POST", &path, &headers, b"x").await;
    answer.expect(201).json()
}

/// The link of a delivery is the span of the publish.
fn check_link(delivery: &ReceivedSpan, publish: &ReceivedSpan) {
    let link = (publish.trace_id.clone(), publish.span_id.clone());
    assert_eq!(delivery.links, [link], "{delivery:?}");
    assert_ne!(delivery.trace_id, publish.trace_id, "a separate trace");
    assert_eq!((delivery.parent_id.as_str(), delivery.kind), ("", 5));
}

/// The lines of the log that have this value of a field.
fn lines(api: &Daemon, field: &str, value: &str) -> Vec<Value> {
    let log = api.log();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines.filter(|line: &Value| line[field] == value).collect()
}

#[tokio::test]
async fn publish_delivery_and_ack_are_linked_across_processes() {
    let collector = OtlpReceiver::start().await;
    let settings = format!("{JSON_LOG}{}", collector.settings(0));
    let stack = Stack::builder().apis(2).api_config(&settings).start().await;
    let (one, other) = (stack.api(0), stack.api(1));
    let native = NativeClient::new(one, "traced").await;
    let elsewhere = NativeClient::with_key(other, "traced", native.key());
    let published = publish(&native, "orders", Some(CALLER)).await;
    let id = published["id"].as_str().unwrap();
    let job = elsewhere.reserve("orders", 1).await.remove(0);
    let outcomes = native
        .settle("ack", &json!({"leases": [job["lease"]]}))
        .await;
    assert_eq!(outcomes[0]["outcome"], "done");

    let publish = collector.span("publish orders").await;
    assert_eq!(
        (publish.trace_id.as_str(), publish.parent_id.as_str()),
        (CALLER_TRACE, CALLER_SPAN)
    );
    let delivery = collector.span("deliver orders").await;
    check_link(&delivery, &publish);
    assert_eq!(job["traceparent"], delivery.trace_parent());
    let ack = collector.span("ack orders").await;
    assert_eq!(
        (&ack.trace_id, &ack.parent_id),
        (&delivery.trace_id, &delivery.span_id)
    );
    for (span, kind, operation, operation_type) in [
        (&publish, 4, "publish", "send"),
        (&delivery, 5, "deliver", "receive"),
        (&ack, 3, "ack", "settle"),
    ] {
        assert_eq!((span.kind, span.is_error), (kind, false), "{span:?}");
        for (name, value) in [
            ("messaging.system", "tidegate"),
            ("messaging.destination.name", "orders"),
            ("messaging.operation.name", operation),
            ("messaging.operation.type", operation_type),
            ("messaging.message.id", id),
            ("tidegate.namespace", "traced"),
        ] {
            assert_eq!(span.attribute(name), value, "{name} of {span:?}");
        }
        assert_eq!(span.service, "tidegate-api");
        assert!(span.nanoseconds < 20_000_000_000, "{span:?}");
    }
    assert_eq!(ack.attribute("tidegate.outcome"), "done");
    for (api, span) in [(one, &publish), (other, &delivery), (one, &ack)] {
        let line = eventually("the request is logged", LIMIT, async || {
            let mut lines = lines(api, "trace_id", &span.trace_id);
            lines.pop().ok_or_else(|| api.log())
        })
        .await;
        assert_eq!(line["request_id"], line["req_id"], "{line}");
    }
    let line = lines(one, "trace_id", CALLER_TRACE).remove(0);
    assert_eq!(line["request_id"], publish.attribute("tidegate.request_id"));
    stack.finish().await;
}

#[tokio::test]
async fn each_attempt_is_a_trace_and_a_worker_continues_it() {
    let collector = OtlpReceiver::start().await;
    let stack = Stack::builder()
        .api_config(&collector.settings(1))
        .start()
        .await;
    let native = NativeClient::new(stack.api(0), "attempts").await;
    publish(&native, "q", None).await;
    let first = native.reserve("q", 1).await.remove(0);
    let body = json!({"leases": [{"lease": first["lease"], "error": "no", "retry_in": "0s"}]});
    assert_eq!(native.settle("fail", &body).await[0]["outcome"], "retry");
    let body = json!({"queues": ["q"], "wait": "10s"});
    let second = native.call("POST", "/reserve/raw", &body);
    let second = second.await.expect(200);
    // The worker has a span in the trace of the delivery.
    let inside = second.header("traceparent").unwrap();
    let inside = format!("{}{CALLER_SPAN}-01", &inside[..36]);
    let lease = json!({"leases": [second.header("tidegate-lease").unwrap()]});
    let headers = [
        ("Content-Type", "application/json"),
        ("traceparent", inside.as_str()),
    ];
    let body = lease.to_string();
    let acked = native.send("POST", "/ack", &headers, body.as_bytes()).await;
    assert_eq!(acked.expect(200).json()["results"][0]["outcome"], "done");
    // A span of another trace is a link, and what is lost is named.
    let headers = [
        ("Content-Type", "application/json"),
        ("traceparent", CALLER),
    ];
    let again = native
        .send("POST", "/release", &headers, body.as_bytes())
        .await;
    assert_eq!(again.expect(200).json()["results"][0]["outcome"], "gone");

    let publish = collector.span("publish q").await;
    assert_eq!(publish.parent_id, "");
    let deliveries = collector.named("deliver q", 2).await;
    deliveries.iter().for_each(|it| check_link(it, &publish));
    let traces: BTreeSet<_> = deliveries.iter().map(|it| &it.trace_id).collect();
    assert_eq!(traces.len(), 2);
    let fail = collector.span("fail q").await;
    assert_eq!(fail.parent_id, deliveries[0].span_id);
    assert_eq!(fail.attribute("tidegate.outcome"), "retry");
    let ack = collector.span("ack q").await;
    assert_eq!(
        (&ack.trace_id, ack.parent_id.as_str()),
        (&deliveries[1].trace_id, CALLER_SPAN)
    );
    let release = collector.span("release q").await;
    assert_eq!(release.parent_id, deliveries[1].span_id);
    assert_eq!(
        release.links,
        [(CALLER_TRACE.to_owned(), CALLER_SPAN.to_owned())]
    );
    assert_eq!(release.attribute("tidegate.outcome"), "gone");
    stack.finish().await;
}

#[tokio::test]
async fn batches_and_the_lmstfy_wire_are_traced_too() {
    let collector = OtlpReceiver::start().await;
    let stack = Stack::builder()
        .api_config(&collector.settings(0))
        .start()
        .await;
    let native = NativeClient::new(stack.api(0), "wires").await;
    let headers = [
        ("Content-Type", "application/json"),
        ("traceparent", CALLER),
    ];
    let body = json!({"jobs": [{"payload": 1}, {"payload": 2, "key": "k"}]}).to_string();
    let path = "/queues/batch/jobs/batch";
    let published = native.send("POST", path, &headers, body.as_bytes()).await;
    assert_eq!(
        published.expect(200).json()["results"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let jobs = native.reserve("batch", 2).await;
    let publish_span = collector.span("publish batch").await;
    assert_eq!(publish_span.attribute("messaging.batch.message_count"), "2");
    let deliveries = collector.named("deliver batch", 2).await;
    deliveries
        .iter()
        .for_each(|it| check_link(it, &publish_span));
    let given: BTreeSet<_> = jobs
        .iter()
        .map(|job| job["traceparent"].to_string())
        .collect();
    let spans = deliveries
        .iter()
        .map(|it| format!("\"{}\"", it.trace_parent()));
    assert_eq!(given, spans.collect());

    let queue = stack.queue_in("wires", "old").await;
    let trace_parent = [("traceparent".to_owned(), CALLER.to_owned())];
    let mut http = tidegate_testkit::RawHttp::connect(stack.api(0).listen()).await;
    let headers = [("X-Token".to_owned(), queue.token().to_owned())];
    let all = [&headers[..], &trace_parent].concat();
    http.request("PUT", &queue.path(), &all, b"x").await;
    http.answer().await.unwrap().expect(201);
    http.request("GET", &queue.path(), &headers, b"").await;
    let consumed = http.answer().await.unwrap().expect(200);
    assert_eq!(
        consumed.json()["attributes"],
        Value::Null,
        "it is not shown"
    );
    let delivery = collector.span("deliver old").await;
    check_link(&delivery, &collector.span("publish old").await);
    assert_eq!(
        consumed.header("traceparent").unwrap(),
        delivery.trace_parent()
    );
    stack.finish().await;
}

#[tokio::test]
async fn a_caller_that_is_not_sampled_and_an_invalid_header_decide_as_documented() {
    let collector = OtlpReceiver::start().await;
    let stack = Stack::builder()
        .api_config(&collector.settings(1))
        .pump_config(&collector.settings(1))
        .start()
        .await;
    let native = NativeClient::new(stack.api(0), "sampling").await;
    publish(&native, "unsampled", Some(UNSAMPLED)).await;
    let job = native.reserve("unsampled", 1).await.remove(0);
    assert_eq!(job["traceparent"], Value::Null);
    assert!(!job["lease"].as_str().unwrap().contains("t."), "{job}");
    native
        .settle("ack", &json!({"leases": [job["lease"]]}))
        .await;
    publish(&native, "invalid", Some("00-not-one")).await;
    let root = collector.span("publish invalid").await;
    assert_eq!((root.parent_id.as_str(), root.links.len()), ("", 0));
    // A publish that is refused has an error. A pump that moves a job is traced, too.
    let policy = json!({"closed": true});
    native
        .call("PATCH", "/queues/closed/policy", &policy)
        .await
        .expect(200);
    native.publish("closed", "", "x").await.expect(409);
    assert!(collector.span("publish closed").await.is_error);
    native.publish("later", "delay=1ms", "x").await.expect(201);
    native.reserve("later", 1).await;
    eventually("a run of a pump is traced", LIMIT, async || {
        let spans = collector.spans();
        let mut of_pumps = spans.iter().filter(|it| it.service == "tidegate-pumpd");
        of_pumps
            .find(|it| it.name.starts_with("move_due ") && it.attribute("tidegate.ready") == "1")
            .map(|_| ())
            .ok_or_else(|| format!("{spans:?}"))
    })
    .await;
    let of_queue = |span: &ReceivedSpan| span.name.ends_with("unsampled");
    assert!(!collector.spans().iter().any(of_queue));
    stack.finish().await;
}

/// The names of the threads of a daemon.
fn threads(api: &Daemon) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", api.pid())).unwrap();
    let names = tasks.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("comm")).ok());
    names.collect()
}

fn has_exporter(api: &Daemon) -> bool {
    threads(api)
        .iter()
        .any(|name| name.starts_with("OpenTelemetry"))
}

#[tokio::test]
async fn traces_are_off_by_default() {
    let stack = Stack::builder().api_config(JSON_LOG).start().await;
    let api = stack.api(0);
    let native = NativeClient::new(api, "off").await;
    let id = publish(&native, "q", Some(CALLER)).await["id"].clone();
    let job = native.reserve("q", 1).await.remove(0);
    assert_eq!(job["traceparent"], Value::Null);
    let lease = job["lease"].as_str().unwrap();
    assert_eq!(lease, format!("{}.1.q", id.as_str().unwrap()));
    // The lease of a process that has a collector.
    let traced = lease.replace(".1.", ".1t.");
    let outcomes = native.settle("ack", &json!({"leases": [traced]})).await;
    assert_eq!(outcomes[0]["outcome"], "done");
    assert!(!has_exporter(api), "{:?}", threads(api));
    assert!(!api.metrics().await.contains(DROPPED));
    eventually("requests are logged", LIMIT, async || {
        let lines = lines(api, "target", "access");
        let has_id = |line: &Value| line["request_id"] == line["req_id"];
        assert!(
            lines
                .iter()
                .all(|line| has_id(line) && line["trace_id"].is_null())
        );
        if lines.len() >= 3 {
            Ok(())
        } else {
            Err(api.log())
        }
    })
    .await;
    stack.finish().await;
}

/// A collector that accepts connections and never answers.
#[tokio::test]
async fn a_silent_collector_delays_neither_requests_nor_the_stop() {
    const PUBLISHES: usize = 2_000;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let settings = format!("[traces]\nendpoint = \"http://{address}\"\nsample_one_in = 1\n");
    let stack = Stack::builder().api_config(&settings).start().await;
    let api = stack.api(0);
    assert!(has_exporter(api));
    let native = NativeClient::new(api, "silent").await;
    let began_at = Instant::now();
    for number in 0..PUBLISHES {
        native
            .publish("q", "", &number.to_string())
            .await
            .expect(201);
    }
    let took = began_at.elapsed();
    print_figure(&format!(
        "{PUBLISHES} publishes with a silent collector: {took:?}"
    ));
    // A request to the collector takes 5 s; if publishes waited for it, this would take hours.
    assert!(took < LIMIT * 10);
    let reports = || api.log().matches("failed to send spans").count();
    eventually("the failure is logged", LIMIT, async || {
        if reports() > 0 {
            Ok(())
        } else {
            Err(api.log())
        }
    })
    .await;
    assert_eq!(reports(), 1, "{}", api.log());
    eventually(
        "the spans of a batch are counted",
        LIMIT,
        async || match dropped(api, "not_sent").await {
            0 => Err(0),
            _ => Ok(()),
        },
    )
    .await;
    let began_at = Instant::now();
    assert!(api.stop(LIMIT).await.success());
    print_figure(&format!(
        "stop with a silent collector: {:?}",
        began_at.elapsed()
    ));
    let log = api.log();
    assert!(log.contains("spans were not sent"), "{log}");
    stack.finish().await;
}

#[tokio::test]
async fn a_stop_sends_the_spans_that_wait() {
    let collector = OtlpReceiver::start().await;
    let stack = Stack::builder()
        .api_config(&collector.settings(1))
        .start()
        .await;
    let native = NativeClient::new(stack.api(0), "stop").await;
    for _ in 0..20 {
        publish(&native, "q", None).await;
    }
    assert!(stack.api(0).stop(LIMIT).await.success());
    let spans = collector.spans();
    assert_eq!(spans.iter().filter(|it| it.name == "publish q").count(), 20);
    stack.finish().await;
}

/// How many spans were dropped for this reason.
async fn dropped(api: &Daemon, reason: &str) -> usize {
    let begin = format!("{DROPPED}{{reason=\"{reason}\"}} ");
    let metrics = api.metrics().await;
    let mut values = metrics.lines().filter_map(|line| line.strip_prefix(&begin));
    let value = values
        .next()
        .unwrap_or_else(|| panic!("no {begin}: {metrics}"));
    value.parse().unwrap()
}

/// Publishes jobs in a batch and reserves them. Returns how many spans that makes.
async fn make_spans(native: &NativeClient, jobs: u16) -> usize {
    let batch: Vec<Value> = (0..jobs).map(|number| json!({"payload": number})).collect();
    let path = "/queues/q/jobs/batch";
    let published = native.call("POST", path, &json!({"jobs": batch})).await;
    published.expect(200);
    let mut delivered = 0;
    while delivered < usize::from(jobs) {
        delivered += native.reserve("q", 256).await.len();
    }
    1 + delivered
}

/// A collector that takes all it gets, but too slowly.
#[tokio::test]
async fn spans_that_a_slow_collector_does_not_get_are_counted() {
    const BATCHES_MAX: usize = 1_000;
    let collector = OtlpReceiver::start().await;
    let stack = Stack::builder()
        .api_config(&collector.settings(1))
        .start()
        .await;
    let api = stack.api(0);
    let native = NativeClient::new(api, "slow").await;
    let mut made = make_spans(&native, 10).await;
    eventually("all spans arrive", LIMIT, async || {
        match collector.spans().len() {
            arrived if arrived == made => Ok(()),
            arrived => Err(arrived),
        }
    })
    .await;
    for reason in ["queue_full", "not_sent"] {
        assert_eq!(dropped(api, reason).await, 0, "{reason}");
    }
    collector.set_delay(Duration::from_secs(2));
    for _ in 0..BATCHES_MAX {
        made += make_spans(&native, 512).await;
        if dropped(api, "queue_full").await > 0 {
            break;
        }
    }
    assert!(dropped(api, "queue_full").await > 0, "{made} spans");
    collector.set_delay(Duration::ZERO);
    eventually("each span has arrived or is counted", LIMIT, async || {
        let (full, failed) = (
            dropped(api, "queue_full").await,
            dropped(api, "not_sent").await,
        );
        match (collector.spans().len(), full, failed) {
            (arrived, ..) if arrived + full + failed == made => Ok(()),
            counts => Err(format!("{counts:?} of {made}")),
        }
    })
    .await;
    let log = api.log();
    let reports = log
        .matches("spans are dropped, since more are made")
        .count();
    assert_eq!(reports, 1, "{log}");
    stack.finish().await;
}

#[tokio::test]
async fn the_environment_names_the_service_as_opentelemetry_says() {
    let collector = OtlpReceiver::start().await;
    let redis = tokio::task::spawn_blocking(start_redis).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("api.toml");
    std::fs::write(&file, collector.settings(1)).unwrap();
    let config = file.to_str().unwrap().to_owned();
    let arguments = [
        "--redis".to_owned(),
        redis.url(),
        "--config".to_owned(),
        config,
    ];
    for (queue, attributes, name, service) in [
        ("attribute", "a=b,service.name=shop", "", "shop"),
        ("variable", "service.name=shop", "other", "other"),
        ("neither", "service.name=", "", "tidegate-api"),
    ] {
        let environment = [
            ("OTEL_RESOURCE_ATTRIBUTES", attributes),
            ("OTEL_SERVICE_NAME", name),
        ];
        let program = DaemonProgram::Api;
        let api = Daemon::start_with(program, queue, &arguments, &environment, folder.path()).await;
        let native = NativeClient::new(&api, queue).await;
        publish(&native, queue, None).await;
        let span = collector.span(&format!("publish {queue}")).await;
        assert_eq!(span.service, service, "{queue}");
        assert!(api.stop(LIMIT).await.success());
    }
}
