//! The read-only routes of the admin port, and the switch of the access log.

use std::time::Duration;

use tidegate_testkit::{Answer, RawHttp, eventually};

use crate::session::{Session, session, session_alone};
use crate::target::better;

async fn ask(session: &Session, method: &str, target: &str) -> Answer {
    let mut http = RawHttp::connect(session.target.admin).await;
    http.request(method, target, &[], b"").await;
    http.answer().await.unwrap()
}

#[tokio::test]
async fn the_version_has_three_fields() {
    let session = session().await;
    let answer = ask(&session, "GET", "/version").await.expect(200);
    let json = "application/json; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(json));
    let text = answer.text();
    let keys = ["build_commit", "build_date", "version"];
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines[4], lines.len()), ("{", "}", 5), "{text}");
    for (key, line) in keys.iter().zip(&lines[1..4]) {
        assert!(line.starts_with(&format!("    \"{key}\": \"")), "{text}");
    }
}

#[tokio::test]
async fn every_namespace_is_listed_with_its_queues() {
    let session = session().await;
    let ns = session.value("ns").to_owned();
    session.queue("b").publish("x").id().await;
    session.queue("a").publish("x").delay_s(1000).id().await;
    // The list may be cached for some seconds.
    let told = async |expected: &[&str]| {
        let what = format!("{expected:?} are listed");
        eventually(&what, Duration::from_secs(60), async || {
            let answer = ask(&session, "GET", "/info").await.expect(200);
            let plain = "text/plain; charset=utf-8";
            assert_eq!(answer.header("content-type"), Some(plain));
            let text = answer.text();
            assert!(
                text.starts_with("{\n    \"") && text.ends_with("\n}\n"),
                "{text}"
            );
            let mut queues: Vec<String> =
                serde_json::from_value(answer.json()[&ns].clone()).unwrap_or_default();
            queues.sort();
            if queues == expected {
                Ok(())
            } else {
                Err(text)
            }
        })
        .await;
    };
    told(&["a", "b"]).await;
    session.queue("b").destroy().await;
    told(&["a"]).await;
    assert_eq!(ask(&session, "GET", "/info?pool=default").await.status, 200);
    session.target.check().await;
}

#[tokio::test]
async fn an_unknown_pool_has_no_queues() {
    let session = session().await;
    let answer = ask(&session, "GET", "/info?pool=nowhere").await.expect(200);
    assert_eq!(answer.text(), "");
    let moved = ask(&session, "GET", "/info/").await.expect(301);
    assert_eq!(moved.header("location"), Some("/info"));
}

#[tokio::test]
async fn the_access_log_is_switched_on_and_off() {
    let mut session = session_alone().await;
    session
        .play(
            r#"
            > @admin POST /accesslog?status=enable
            < 200 {"status":"enabled"}
            > @admin GET /accesslog
            < 200 {"status":"enabled"}
            > @admin POST /accesslog?status=disable
            < 200 {"status":"disabled"}
            > @admin GET /accesslog
            < 200 {"status":"disabled"}
            > @admin POST /accesslog
            < 400 {"error":"invalid status"}
            > @admin POST /accesslog?status=on
            < 400 {"error":"invalid status"}
            > @admin POST /accesslog?status=
            < 400 {"error":"invalid status"}
            > @admin POST /accesslog
            + Content-Type: application/x-www-form-urlencoded
            | status=enable
            < 400 {"error":"invalid status"}
            > @admin GET /accesslog
            < 200 {"status":"disabled"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn metrics_have_the_names_that_dashboards_use() {
    let session = session().await;
    let queue = session.queue("q");
    queue.publish("x").id().await;
    let job = queue.consume().job().await.unwrap();
    queue.ack(&job.id).await;
    let ns = session.value("ns").to_owned();
    let of_queue = format!(r#"{{namespace="{ns}",pool="default",queue="q"}}"#);
    let of_job = format!(
        r#"{{api="/api/:namespace/:queue/job/:job_id",code="204",method="DELETE",namespace="{ns}",pool="default"}}"#
    );
    let mut expected = vec![
        format!("infra_lmstfy_http_http_codes{of_job} 1"),
        format!("infra_lmstfy_redis_publish_queue_jobs{of_queue} 1"),
        format!("infra_lmstfy_redis_consume_queue_jobs{of_queue} 1"),
        format!("infra_lmstfy_redis_job_elapsed_ms_count{of_queue} 1"),
        format!("infra_lmstfy_redis_job_ack_elapsed_ms_count{of_queue} 1"),
    ];
    if !better("the sizes of queues are metrics of the pumps") {
        expected.push(format!("infra_lmstfy_redis_queue_sizes{of_queue} 0"));
        expected.push(format!("infra_lmstfy_redis_deadletter_sizes{of_queue} 0"));
    }
    if better("a consume is counted under its own route") {
        let labels = r#"api="/api/:namespace/:queue",code="200",method="GET""#;
        let of_consume = format!(r#"{{{labels},namespace="{ns}",pool="default"}}"#);
        expected.push(format!("infra_lmstfy_http_http_codes{of_consume} 1"));
    }
    eventually("all metrics exist", Duration::from_secs(60), async || {
        let text = ask(&session, "GET", "/metrics").await.expect(200).text();
        let lines: Vec<String> = text.lines().map(with_sorted_labels).collect();
        let missing = expected.iter().find(|line| !lines.contains(line));
        missing.map_or(Ok(()), |line| Err(format!("no {line} in\n{text}")))
    })
    .await;
}

/// No label here has a comma in its value. The order of labels has no meaning.
fn with_sorted_labels(line: &str) -> String {
    let Some((name, rest)) = line.split_once('{') else {
        return line.to_owned();
    };
    let (labels, value) = rest.split_once('}').unwrap();
    let mut labels: Vec<&str> = labels.split(',').collect();
    labels.sort_unstable();
    format!("{name}{{{}}}{value}", labels.join(","))
}

#[tokio::test]
async fn profiler_paths_answer_404_with_an_alternative() {
    if !better("there is no profiler inside") {
        return;
    }
    let session = session().await;
    for path in [
        "/debug/pprof",
        "/debug/pprof/",
        "/debug/pprof/profile?seconds=1",
    ] {
        for method in ["GET", "POST"] {
            let answer = ask(&session, method, path).await.expect(404);
            assert!(answer.text().contains("perf record"), "{answer}");
        }
    }
}

#[tokio::test]
async fn pools_are_listed_by_name() {
    let session = session().await;
    let answer = ask(&session, "GET", "/pools").await.expect(200);
    let names = answer.json();
    assert!(
        names.as_array().unwrap().contains(&"default".into()),
        "{answer}"
    );
    assert!(answer.text().starts_with("[\n    \""), "{answer}");
    let moved = ask(&session, "GET", "/pools/").await.expect(301);
    assert_eq!(moved.header("location"), Some("/pools"));
}
