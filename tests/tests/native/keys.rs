//! Jobs with keys, and requests that are repeated.

use futures_util::future::join_all;
use serde_json::json;
use tidegate_testkit::{NativeClient, Stack};

#[tokio::test]
async fn the_key_of_a_job_decides_what_a_publish_does() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let publish = async |options: &str, payload: &str| {
        let options = format!("key=order-17&{options}");
        client.publish("q", &options, payload).await
    };
    let first = publish("delay=1h", "1").await.expect(201).json();
    let kept = publish("delay=1s", "2").await.expect(200).json();
    assert_eq!(
        (&kept["outcome"], &kept["id"]),
        (&json!("exists"), &first["id"])
    );
    assert_eq!(kept["run_at"], first["run_at"]);
    let taken = publish("if_exists=reject", "3").await.expect(409).json();
    assert_eq!(taken["code"], "key_taken");
    let replaced = publish("if_exists=replace", "4").await.expect(200).json();
    assert_eq!(replaced["outcome"], "replaced");
    let job = client.reserve("q", 1).await.remove(0);
    assert_eq!(
        (&job["id"], &job["payload_base64"]),
        (&first["id"], &json!("NA=="))
    );
    let rerun = publish("if_exists=replace", "5").await.expect(200).json();
    assert_eq!(
        (&rerun["outcome"], &rerun["state"]),
        (&json!("rerun"), &json!("leased"))
    );
    // That is the time of the new version, not the end of the lease.
    assert!(rerun["run_at"].as_str().unwrap() < job["lease_until"].as_str().unwrap());
    let kept = publish("", "x").await.expect(200).json();
    assert_eq!(
        (&kept["state"], kept.get("run_at")),
        (&json!("leased"), None)
    );
    let leases = json!({"leases": [job["lease"]]});
    assert_eq!(
        client.settle("ack", &leases).await,
        [json!({"outcome": "rerun"})]
    );
    let again = client.reserve("q", 1).await.remove(0);
    assert_eq!(
        (&again["attempt"], &again["payload_base64"]),
        (&json!(2), &json!("NQ=="))
    );
    let dead = json!({"leases": [{"lease": again["lease"], "error": "no", "dead": true}]});
    assert_eq!(
        client.settle("fail", &dead).await,
        [json!({"outcome": "dead"})]
    );
    let shown = client
        .get("/queues/q/jobs/key:order-17")
        .await
        .expect(200)
        .json();
    assert_eq!(
        (&shown["state"], &shown["reason"]),
        (&json!("dead"), &json!("permanent"))
    );
    assert_eq!(shown["history"][0]["error"], "no");
    let revived = publish("", "6").await.expect(200).json();
    assert_eq!(
        (&revived["outcome"], &revived["id"]),
        (&json!("revived"), &first["id"])
    );
    stack.finish().await;
}

#[tokio::test]
async fn a_retained_job_deduplicates_until_its_time_is_over() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let publish = async || client.publish("q", "key=a&retain=2s", "x").await;
    let first = publish().await.expect(201).json();
    let job = client.reserve("q", 1).await.remove(0);
    client
        .settle("ack", &json!({"leases": [job["lease"]]}))
        .await;
    let kept = publish().await.expect(200).json();
    assert_eq!(
        (&kept["outcome"], &kept["state"]),
        (&json!("exists"), &json!("done"))
    );
    assert_eq!(kept.get("run_at"), None);
    assert_eq!(kept["id"], first["id"]);
    let another = tidegate_testkit::eventually(
        "the key is free again",
        std::time::Duration::from_secs(20),
        async || match publish().await {
            answer if answer.status == 201 => Ok(answer.json()),
            answer => Err(answer),
        },
    );
    assert_ne!(another.await["id"], first["id"]);
    stack.finish().await;
}

#[tokio::test]
async fn a_repeated_request_publishes_nothing() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let publish = async |payload: &[u8], options: &str| {
        let headers = [("Idempotency-Key", "request-1")];
        let path = format!("/queues/q/jobs?{options}");
        client.send("POST", &path, &headers, payload).await
    };
    let first = publish(b"x", "delay=5m").await.expect(201);
    assert_eq!(first.header("tidegate-replayed"), None);
    let again = publish(b"x", "delay=5m").await.expect(200);
    assert_eq!(again.header("tidegate-replayed"), Some("true"));
    assert_eq!(again.json()["id"], first.json()["id"]);
    for (payload, options) in [(&b"y"[..], "delay=5m"), (b"x", "delay=6m")] {
        let other = publish(payload, options).await.expect(422).json();
        assert_eq!(other["code"], "idempotency_key_reused");
    }
    let held = client.get("/queues/q").await.expect(200).json();
    assert_eq!(held["jobs"]["delayed"], 1);
    stack.finish().await;
}

/// Each version that replaces a running one runs once, and the job keeps its id and its key all the time.
#[tokio::test]
async fn a_key_keeps_one_job_through_its_reruns() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let publish = async |payload: &str| {
        let options = "key=a&if_exists=replace";
        client.publish("q", options, payload).await
    };
    let first = publish("0").await.expect(201).json();
    for version in 1..=3 {
        let job = client.reserve("q", 1).await.remove(0);
        let rerun = publish(&version.to_string()).await.expect(200).json();
        assert_eq!(
            (&rerun["outcome"], &rerun["id"]),
            (&json!("rerun"), &first["id"])
        );
        let leases = json!({"leases": [job["lease"]]});
        assert_eq!(
            client.settle("ack", &leases).await,
            [json!({"outcome": "rerun"})]
        );
        let shown = client.get("/queues/q/jobs/key:a").await.expect(200).json();
        assert_eq!(
            (&shown["id"], &shown["state"]),
            (&first["id"], &json!("ready"))
        );
    }
    let job = client.reserve("q", 1).await.remove(0);
    let leases = json!({"leases": [job["lease"]]});
    assert_eq!(
        client.settle("ack", &leases).await,
        [json!({"outcome": "done"})]
    );
    client.get("/queues/q/jobs/key:a").await.expect(404);
    stack.finish().await;
}

/// Publishes at the same time share calls, in batches of different sizes.
#[tokio::test]
async fn each_of_many_publishers_gets_the_job_with_its_key() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let publish = async |number: usize| {
        let key = format!("key={}&delay=1h", number % 40);
        client.publish("q", &key, "x").await
    };
    let answers = join_all((0..120).map(publish)).await;
    let created = answers.iter().filter(|it| it.status == 201).count();
    assert_eq!(created, 40);
    for (number, answer) in answers.into_iter().enumerate() {
        let (published, key) = (answer.json(), (number % 40).to_string());
        assert_eq!(published["key"], key.as_str());
        let path = format!("/queues/q/jobs/key:{key}");
        let job = client.get(&path).await.expect(200).json();
        assert_eq!((&job["id"], &job["key"]), (&published["id"], &json!(key)));
    }
    stack.finish().await;
}
