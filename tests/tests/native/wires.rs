//! Jobs that are published on one wire and consumed on the other.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{NativeClient, Stack, eventually};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn both_wires_see_the_same_jobs() {
    let stack = Stack::builder().start().await;
    let native = NativeClient::new(stack.api(0), "shop").await;
    let queue = stack.queue_in("shop", "q").await;
    let options = "key=a&max_attempts=7";
    let headers = [("Content-Type", "text/plain"), ("Job-Attr-Tenant", "blue")];
    let path = format!("/queues/q/jobs?{options}");
    native
        .send("POST", &path, &headers, b"native")
        .await
        .expect(201);
    let job = queue.consume().ttr_s(1).timeout_s(10).job().await.unwrap();
    assert_eq!((job.text(), job.remain_tries), ("native".to_owned(), 7));
    assert_eq!(job.attributes, json!({"tenant": "blue"}));
    queue.ack(&job.id).await;
    native.get("/queues/q/jobs/key:a").await.expect(404);

    let id = queue.publish("lmstfy").tries(2).id().await;
    let job = native.reserve("q", 1).await.remove(0);
    assert_eq!(
        (&job["id"], &job["content_type"]),
        (&json!(id), &json!("application/octet-stream"))
    );
    let failed = json!({"leases": [{"lease": job["lease"], "error": "no", "retry_in": "100ms"}]});
    assert_eq!(native.settle("fail", &failed).await[0]["outcome"], "retry");
    let job = native.reserve("q", 1).await.remove(0);
    let failed = json!({"leases": [{"lease": job["lease"], "error": "no"}]});
    assert_eq!(
        native.settle("fail", &failed).await,
        [json!({"outcome": "dead"})]
    );
    stack.finish().await;
}

/// A job with a key is deleted in any state, as one without.
#[tokio::test]
async fn lmstfy_clients_delete_a_job_with_a_key_in_any_state() {
    let stack = Stack::builder().start().await;
    let native = NativeClient::new(stack.api(0), "shop").await;
    let queue = stack.queue_in("shop", "q").await;
    let publish = async |options: &str| {
        let path = format!("key=a&{options}");
        let answer = native.publish("q", &path, "x").await.expect(201);
        answer.json()["id"].as_str().unwrap().to_owned()
    };
    let is_gone = async |id: &str| {
        native.get("/queues/q/jobs/key:a").await.expect(404);
        assert_eq!(queue.peek_job(id).await.status, 404);
    };
    for options in ["delay=1h", "lease=1m", "max_deliveries=3&ttl=1h"] {
        let id = publish(options).await;
        queue.ack(&id).await;
        is_gone(&id).await;
    }
    // Leased, ready again after a lost worker, and dead.
    let id = publish("").await;
    let consume = async || queue.consume().ttr_s(1).timeout_s(10).job().await.unwrap();
    assert_eq!(consume().await.id, id);
    queue.ack(&id).await;
    is_gone(&id).await;
    let id = publish("").await;
    consume().await;
    eventually("the lease has expired", LIMIT, async || {
        match queue.size().await {
            1 => Ok(()),
            size => Err(size),
        }
    })
    .await;
    queue.ack(&id).await;
    is_gone(&id).await;
    let id = publish("max_deliveries=1").await;
    consume().await;
    eventually("the job is dead", LIMIT, async || {
        match queue.dead_size().await {
            1 => Ok(()),
            size => Err(size),
        }
    })
    .await;
    queue.ack(&id).await;
    is_gone(&id).await;
    stack.finish().await;
}

/// A job that was drained from another server has its old id as its key.
#[tokio::test]
async fn lmstfy_clients_name_a_job_by_its_key() {
    let stack = Stack::builder().pumps(0).start().await;
    let native = NativeClient::new(stack.api(0), "shop").await;
    let queue = stack.queue_in("shop", "q").await;
    let old = "1ZARZ3NDEKTSV4RRFFQ69G5FAVX";
    let publish = async || {
        let options = format!("key={old}&delay=1h");
        native.publish("q", &options, "old").await.expect(201);
    };
    publish().await;
    let shown = queue.peek_job(old).await.expect(200).json();
    assert_eq!(shown["data"], "b2xk");
    queue.ack(old).await;
    assert_eq!(queue.peek_job(old).await.status, 404);
    publish().await;
    queue.republish(old, "new").id().await;
    assert_eq!(queue.peek_job(old).await.status, 404);
    assert_eq!(queue.size().await, 1);
    stack.finish().await;
}

/// A token of the lmstfy wire publishes and consumes, and does nothing else.
#[tokio::test]
async fn a_token_is_a_credential_of_the_native_api() {
    let stack = Stack::builder().pumps(0).start().await;
    let queue = stack.queue_in("shop", "q").await;
    let native = NativeClient::with_key(stack.api(0), "shop", queue.token());
    native.publish("q", "", "x").await.expect(201);
    let job = native.reserve("q", 1).await.remove(0);
    let acked = native
        .settle("ack", &json!({"leases": [job["lease"]]}))
        .await;
    assert_eq!(acked, [json!({"outcome": "done"})]);
    native.get("/queues/q").await.expect(403);
    let elsewhere = NativeClient::with_key(stack.api(0), "other", queue.token());
    elsewhere.publish("q", "", "x").await.expect(401);
    stack.finish().await;
}

#[tokio::test]
async fn lmstfy_sees_full_and_closed_queues_as_its_clients_expect() {
    let stack = Stack::builder().pumps(0).start().await;
    let native = NativeClient::new(stack.api(0), "shop").await;
    let queue = stack.queue_in("shop", "q").await;
    let policy = "/queues/q/policy";
    native
        .call("PUT", policy, &json!({"max_jobs": 1}))
        .await
        .expect(200);
    native.publish("q", "key=a", "x").await.expect(201);
    assert_eq!(queue.publish("y").send().await.unwrap().status, 429);
    assert_eq!(
        native.publish("q", "", "y").await.expect(429).json()["code"],
        "queue_full"
    );
    native
        .call("PUT", policy, &json!({"closed": true}))
        .await
        .expect(200);
    assert_eq!(queue.publish("y").send().await.unwrap().status, 400);
    for options in ["", "key=a&if_exists=replace"] {
        assert_eq!(
            native.publish("q", options, "y").await.expect(409).json()["code"],
            "queue_closed"
        );
    }
    stack.finish().await;
}

/// The way of lmstfy clients to wait for a reply (docs/from-lmstfy.md): a queue that has the id of the job as its name.
#[tokio::test]
async fn a_reply_is_a_job_in_a_queue_named_by_the_id_of_the_job() {
    let stack = Stack::builder().apis(2).start().await;
    let work = stack.queue_in("shop", "work").await;
    let id = work.publish("render").id().await;
    let replies = stack.queue_in("shop", &id).await;
    let answering = async {
        let job = work.consume().ttr_s(10).timeout_s(10).job().await.unwrap();
        stack
            .queue_in("shop", &job.id)
            .await
            .publish("rendered")
            .id()
            .await;
        work.ack(&job.id).await;
    };
    let waiting = async { replies.consume().ttr_s(10).timeout_s(20).job().await };
    let (reply, ()) = tokio::join!(waiting, answering);
    let reply = reply.unwrap();
    assert_eq!(reply.text(), "rendered");
    replies.ack(&reply.id).await;
    stack.finish().await;
}
