//! Results of jobs, and publishers that wait for them.

use std::time::Duration;

use futures_util::future::join;
use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, RedisControl, Stack};

/// Takes the next job of a queue and acknowledges it with these fields.
async fn serve(client: &NativeClient, queue: &str, mut fields: Value) -> Value {
    let job = client.reserve(queue, 1).await.remove(0);
    fields["lease"] = job["lease"].clone();
    let acked = client.settle("ack", &json!({"leases": [fields]})).await;
    assert_eq!(acked, [json!({"outcome": "done"})]);
    job
}

fn id_of(published: &Value) -> &str {
    published["id"].as_str().unwrap()
}

#[tokio::test]
async fn a_publisher_waits_for_the_result_at_another_api() {
    let stack = Stack::builder().apis(2).start().await;
    let publisher = NativeClient::new(stack.api(0), "shop").await;
    let worker = NativeClient::new(stack.api(1), "shop").await;
    for (fields, content_type, expected) in [
        (
            json!({"result": {"total": 7}}),
            "application/json",
            r#"{"total":7}"#,
        ),
        (json!({"result": null}), "application/json", "null"),
        (
            json!({"result_base64": "YWJj", "content_type": "text/plain"}),
            "text/plain",
            "abc",
        ),
    ] {
        let call = publisher.publish_and_wait("q", "wait=20s", "x");
        let (answer, job) = join(call, serve(&worker, "q", fields)).await;
        let answer = answer.expect(200);
        assert_eq!(answer.text(), expected);
        assert_eq!(answer.header("content-type"), Some(content_type));
        assert_eq!(answer.header("tidegate-job-id"), job["id"].as_str());
        assert_eq!(answer.header("content-security-policy"), Some("sandbox"));
        // It stays for a moment, so that a client whose connection broke can fetch it.
        let path = format!("/queues/q/jobs/{}/result", id_of(&job));
        assert_eq!(publisher.get(&path).await.expect(200).text(), expected);
        let shown = path.trim_end_matches("/result");
        let shown = publisher.get(shown).await.expect(200).json();
        assert_eq!(
            (&shown["state"], &shown["payload_bytes"]),
            (&json!("done"), &json!(0))
        );
        assert_eq!(shown["result_bytes"], expected.len());
        let times = [&job["run_at"], &shown["done_at"], &job["lease_until"]];
        assert!(times.is_sorted_by_key(|time| time.as_str()), "{times:?}");
        assert_ne!(times[1], times[2]);
    }
    let call = publisher.publish_and_wait("q", "wait=20s", "x");
    let (answer, job) = join(call, serve(&worker, "q", json!({}))).await;
    assert_eq!(
        answer.expect(204).header("tidegate-job-id"),
        job["id"].as_str()
    );
    stack.finish().await;
}

#[tokio::test]
async fn each_end_of_a_call_is_definite() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let dying = async {
        let job = client.reserve("q", 1).await.remove(0);
        let failed =
            json!({"leases": [{"lease": job["lease"], "error": "no such order", "dead": true}]});
        client.settle("fail", &failed).await;
        job
    };
    let (answer, job) = join(client.publish_and_wait("q", "wait=20s", "x"), dying).await;
    let dead = answer.expect(409).json();
    assert_eq!(
        (&dead["code"], &dead["job"]),
        (&json!("job_dead"), &job["id"])
    );
    assert_eq!(dead["applied"], "yes");
    let path = format!("/queues/q/jobs/{}/result?wait=5s", id_of(&job));
    client.get(&path).await.expect(409);

    let cancelling = async {
        let call = json!({"queues": ["q"], "wait": "10s"});
        client.call("POST", "/reserve", &call).await.expect(200);
        let path = "/queues/q/jobs/key:a?running=revoke";
        client.send("DELETE", path, &[], b"").await.expect(200);
    };
    let (answer, ()) = join(
        client.publish_and_wait("q", "wait=20s&key=a", "x"),
        cancelling,
    )
    .await;
    assert_eq!(answer.expect(404).json()["code"], "job_not_found");
    // One that was not started in time is dropped.
    let answer = client
        .publish_and_wait("other", "wait=20s&start_within=100ms", "x")
        .await;
    assert_eq!(answer.expect(404).json()["code"], "job_not_found");

    let late = client
        .publish_and_wait("q", "wait=200ms", "x")
        .await
        .expect(202)
        .json();
    assert_eq!(
        (&late["outcome"], &late["state"]),
        (&json!("created"), &json!("ready"))
    );
    let path = format!("/queues/q/jobs/{}/result", id_of(&late));
    let waits = client.get(&path).await.expect(202).json();
    assert_eq!(waits, json!({"id": late["id"], "state": "ready"}));
    let path = format!("{path}?wait=20s");
    let fetching = client.get(&path);
    let (answer, _) = join(fetching, serve(&client, "q", json!({"result": 1}))).await;
    assert_eq!(answer.expect(200).text(), "1");
    client
        .get("/queues/q/jobs/key:none/result?wait=20s")
        .await
        .expect(404);
    stack.finish().await;
}

#[tokio::test]
async fn a_lost_worker_and_a_lost_message_cost_time_and_no_result() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    let losing = async {
        let lost = client.reserve("q", 1).await.remove(0);
        control.end_subscriptions().await;
        let job = serve(&client, "q", json!({"result": "second"})).await;
        assert_eq!((&job["id"], &job["attempt"]), (&lost["id"], &json!(2)));
    };
    let (answer, ()) = join(
        client.publish_and_wait("q", "wait=30s&lease=300ms", "x"),
        losing,
    )
    .await;
    assert_eq!(answer.expect(200).text(), "\"second\"");
    stack.finish().await;
}

#[tokio::test]
async fn all_who_wait_for_a_key_get_the_result_of_the_newest_version() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let first = client.publish_and_wait("q", "wait=20s&key=a", "old");
    let working = async {
        let job = client.reserve("q", 1).await.remove(0);
        let replacing = client.publish_and_wait("q", "wait=20s&key=a&if_exists=replace", "new");
        let ending = async {
            let joined = client
                .publish_and_wait("q", "wait=100ms&key=a", "joins")
                .await;
            assert_eq!(joined.expect(202).json()["outcome"], "exists");
            let result = json!({"leases": [{"lease": job["lease"], "result": "old"}]});
            let acked = client.settle("ack", &result).await;
            assert_eq!(acked, [json!({"outcome": "rerun"})]);
            serve(&client, "q", json!({"result": "new"})).await
        };
        let (answer, again) = join(replacing, ending).await;
        assert_eq!(again["payload_base64"], "bmV3");
        assert_eq!(answer.expect(200).text(), "\"new\"");
    };
    let (answer, ()) = join(first, working).await;
    assert_eq!(answer.expect(200).text(), "\"new\"");
    // Done, it is found by its key; and by its id also after another job has its key.
    let found = client
        .publish_and_wait("q", "wait=20s&key=a", "later")
        .await
        .expect(200);
    assert_eq!(found.text(), "\"new\"");
    let replacing = client
        .publish("q", "key=a&if_exists=replace", "other")
        .await;
    assert_eq!(replacing.expect(201).json()["outcome"], "created");
    let path = format!(
        "/queues/q/jobs/{}/result",
        found.header("tidegate-job-id").unwrap()
    );
    assert_eq!(client.get(&path).await.expect(200).text(), "\"new\"");
    assert_eq!(
        client.get("/queues/q/jobs/key:a").await.expect(200).json()["state"],
        "ready"
    );
    stack.finish().await;
}

#[tokio::test]
async fn results_are_bounded_and_a_full_redis_drops_them() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let result = "r".repeat(200_000);
    let ids: Vec<String> = {
        let mut ids = Vec::new();
        for _ in 0..3 {
            let published = client
                .publish("q", "retain=1h", "x")
                .await
                .expect(201)
                .json();
            ids.push(id_of(&published).to_owned());
        }
        ids
    };
    let jobs = client.reserve("q", 3).await;
    let too_large = json!({"leases": [{"lease": jobs[0]["lease"], "result": "r".repeat(300_000)}]});
    let refused = client
        .call("POST", "/ack", &too_large)
        .await
        .expect(413)
        .json();
    assert_eq!(refused["field"], "leases[0].result");
    let large = jobs[..2].iter();
    let large = large.map(|job| json!({"lease": job["lease"], "result": result}));
    let large: Vec<Value> = large.collect();
    let acked = client.settle("ack", &json!({"leases": large})).await;
    assert_eq!(acked, vec![json!({"outcome": "done"}); 2]);
    for id in &ids[..2] {
        let path = format!("/queues/q/jobs/{id}/result");
        let found = client.get(&path).await.expect(200).text();
        assert_eq!(found, format!("\"{result}\""));
    }
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    control.limit_memory(Some(0)).await;
    let last = json!({"leases": [{"lease": jobs[2]["lease"], "result": 1}]});
    let acked = client.settle("ack", &last).await;
    assert_eq!(acked, [json!({"outcome": "done", "result_dropped": true})]);
    control.limit_memory(None).await;
    let path = format!("/queues/q/jobs/{}/result", ids[2]);
    client.get(&path).await.expect(204);
    stack.finish().await;
}

#[tokio::test]
async fn waits_end_when_the_api_stops_and_when_the_client_may_not_read() {
    let stack = Stack::builder().apis(2).pumps(0).start().await;
    let publisher = NativeClient::with_scopes(stack.api(1), "shop", &["publish"]).await;
    let refused = publisher
        .publish_and_wait("q", "wait=5s", "x")
        .await
        .expect(403)
        .json();
    assert_eq!(refused["code"], "scope_missing");
    let client = NativeClient::new(stack.api(0), "shop").await;
    let other = NativeClient::new(stack.api(1), "shop").await;
    let stopping = async {
        let job = other.reserve("q", 1).await.remove(0);
        stack.api(0).stop(Duration::from_secs(20)).await;
        job
    };
    let (answer, job) = join(client.publish_and_wait("q", "wait=1h", "x"), stopping).await;
    assert_eq!(answer.expect(202).json()["id"], job["id"]);
    let path = format!("/queues/q/jobs/{}/result?wait=20s", id_of(&job));
    let done = json!({"leases": [{"lease": job["lease"], "result": 1}]});
    let (answer, _) = join(other.get(&path), other.settle("ack", &done)).await;
    assert_eq!(answer.expect(200).text(), "1");
    let too_long = other
        .publish_and_wait("q", "wait=25h", "x")
        .await
        .expect(400)
        .json();
    assert_eq!(too_long["field"], "wait");
    stack.finish().await;
}

/// A client that asks for the result of a dead job learns of its end; only a publish revives it.
#[tokio::test]
async fn to_wait_for_a_result_never_revives_a_dead_job() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let published = client.publish("q", "key=a&max_attempts=1", "x").await;
    published.expect(201);
    let job = client.reserve("q", 1).await.remove(0);
    let failed = json!({"leases": [{"lease": job["lease"], "error": "e"}]});
    assert_eq!(client.settle("fail", &failed).await[0]["outcome"], "dead");
    for path in ["key:a", job["id"].as_str().unwrap()] {
        let path = format!("/queues/q/jobs/{path}/result?wait=1s");
        assert_eq!(
            client.get(&path).await.expect(409).json()["code"],
            "job_dead"
        );
    }
    let shown = client.get("/queues/q/jobs/key:a").await.expect(200).json();
    assert_eq!(shown["state"], "dead");
    stack.finish().await;
}
