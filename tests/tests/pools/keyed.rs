//! Jobs with keys in a pool that moves: a key has one job in both deployments together.

use serde_json::json;
use tidegate_testkit::{NativeClient, Stack};

use crate::both::begin_the_move;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_has_one_job_while_its_pool_moves() {
    let stack = Stack::builder().pool("new").start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let publish = async |key: &str, options: &str, payload: &str| {
        let options = format!("key={key}&{options}");
        client.publish("q", &options, payload).await
    };
    let old = publish("old", "delay=1h", "1").await.expect(201).json();
    let repeated = [("Idempotency-Key", "request-1")];
    let once = async || {
        let path = "/queues/q/jobs?delay=1h";
        client.send("POST", path, &repeated, b"x").await
    };
    let first = once().await.expect(201).json();
    begin_the_move(&stack).await;
    let kept = publish("old", "delay=1h", "2").await.expect(200).json();
    assert_eq!(
        (&kept["outcome"], &kept["id"]),
        (&json!("exists"), &old["id"])
    );
    assert_eq!(once().await.expect(200).json()["id"], first["id"]);
    publish("new", "delay=1h", "3").await.expect(201);
    let again = publish("new", "delay=1h&if_exists=reject", "4").await;
    assert_eq!(again.expect(409).json()["code"], "key_taken");
    let jobs = json!({"jobs": [
        {"payload": 1, "key": "old", "if_exists": "replace"},
        {"payload": 2, "key": "other"},
        {"payload": 3, "key": "new", "if_exists": "reject"},
    ]});
    let batch = client.call("POST", "/queues/q/jobs/batch", &jobs).await;
    let results = batch.expect(200).json()["results"].clone();
    assert_eq!(results[0]["outcome"], "replaced");
    assert_eq!(results[1]["outcome"], "created");
    assert_eq!(results[2]["problem"]["code"], "key_taken");
    let atomic = json!({"atomic": true, "jobs": [{"payload": 1, "key": "old"}]});
    let kept = client.call("POST", "/queues/q/jobs/batch", &atomic).await;
    assert_eq!(
        kept.expect(201).json()["results"][0]["outcome"],
        "exists",
        "all jobs are in the own deployment"
    );
    let atomic = json!({"atomic": true, "jobs": [
        {"payload": 1, "key": "old"}, {"payload": 2, "key": "in neither"},
    ]});
    let refused = client.call("POST", "/queues/q/jobs/batch", &atomic).await;
    let refused = refused.expect(503).json();
    assert_eq!(refused["applied"], "no");
    let atomic = json!({"atomic": true, "jobs": [{"payload": 1, "key": "third"}]});
    client
        .call("POST", "/queues/q/jobs/batch", &atomic)
        .await
        .expect(201);
    let held = client.get("/queues/q").await.expect(200).json();
    assert_eq!(held["jobs"]["delayed"], json!(2), "{held}");
    assert_eq!(held["jobs"]["ready"], json!(3), "{held}");
    stack.finish().await;
}

/// The new deployment refuses its part of a batch after the old one has changed a job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_of_a_batch_is_answered_as_its_deployment_has_decided() {
    let stack = Stack::builder().pool("new").start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let old = client.publish("q", "key=old&delay=1h", "1").await;
    let path = format!(
        "/queues/q/jobs/{}",
        old.expect(201).json()["id"].as_str().unwrap()
    );
    begin_the_move(&stack).await;
    let target = redis::Client::open(stack.redis_of("new").url()).unwrap();
    let replicas = |count: u8| {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("min-replicas-to-write").arg(count);
        set.exec(&mut target.get_connection().unwrap()).unwrap();
    };
    replicas(1);
    let publish = async |jobs: &[&str]| {
        let job = |key: &&str| json!({"payload": 2, "key": key, "if_exists": "replace"});
        let jobs = json!({"jobs": jobs.iter().map(job).collect::<Vec<_>>()});
        let batch = client.call("POST", "/queues/q/jobs/batch", &jobs).await;
        batch.json()["results"].clone()
    };
    let of_both = publish(&["old", "other"]).await;
    let of_new = publish(&["other", "another"]).await;
    replicas(0);
    assert_eq!(of_both[0]["outcome"], "replaced", "{of_both}");
    for result in [&of_both[1], &of_new[0], &of_new[1]] {
        assert_eq!(result["problem"]["applied"], "no", "{result}");
    }
    let replaced = client.get(&path).await.expect(200).json();
    assert_eq!(replaced["state"], "ready", "{replaced}");
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_die_are_counted_in_their_deployment() {
    let stack = Stack::builder().pool("new").start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    begin_the_move(&stack).await;
    client.publish("q", "", "1").await.expect(201);
    let reserve = json!({"queues": ["q"], "wait": "5s"});
    let reserved = client.call("POST", "/reserve", &reserve).await;
    let lease = reserved.expect(200).json()["jobs"][0]["lease"].clone();
    let fail = json!({"leases": [{"lease": lease, "error": "x", "dead": true}]});
    client.call("POST", "/fail", &fail).await.expect(200);
    for (pool, dead) in [("default", 0.0), ("new", 1.0)] {
        let pool = format!(r#"pool="{pool}""#);
        let counted = stack
            .api(0)
            .metric_with_label("tidegate_jobs_dead_total", &pool);
        assert_eq!(counted.await, dead, "{pool}");
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_done_and_kept_does_not_hide_the_next_job_with_its_key() {
    let stack = Stack::builder().pool("new").start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let publish = async |options: &str| {
        let options = format!("key=order&delay=1h&if_exists={options}");
        client.publish("q", &options, "x").await
    };
    let options = "key=order&retain=1h";
    let first = client
        .publish("q", options, "first")
        .await
        .expect(201)
        .json();
    let job = client.reserve("q", 1).await.remove(0);
    let with_result = json!({"leases": [{"lease": job["lease"], "result": 1}]});
    let acked = client.settle("ack", &with_result).await;
    assert_eq!(acked, [json!({"outcome": "done"})]);
    begin_the_move(&stack).await;

    let of_key = |verb: &str| format!("/queues/q/jobs/key:order{verb}");
    let shown = client.get(&of_key("")).await.expect(200).json();
    assert_eq!(shown["state"], "done", "no other job has the key yet");
    let kept = publish("keep").await.expect(200).json();
    assert_eq!(kept["id"], first["id"]);

    let second = publish("replace").await.expect(201).json();
    let shown = client.get(&of_key("")).await.expect(200).json();
    assert_eq!(
        (&shown["id"], &shown["state"]),
        (&second["id"], &json!("delayed"))
    );
    let kept = publish("keep").await.expect(200).json();
    assert_eq!(kept["id"], second["id"]);
    let waits = client.get(&of_key("/result")).await.expect(202).json();
    assert_eq!(waits["id"], second["id"]);
    let later = json!({"delay": "2h"});
    let changed = client.call("PATCH", &of_key(""), &later).await;
    assert_eq!(changed.expect(200).json()["id"], second["id"]);
    let promoted = client.send("POST", &of_key("/promote"), &[], b"").await;
    assert_eq!(promoted.expect(200).json()["id"], second["id"]);
    let cancelled = client.send("DELETE", &of_key(""), &[], b"").await;
    assert_eq!(cancelled.expect(200).json()["outcome"], "cancelled");

    // The publish took the key from the job that is done.
    client.get(&of_key("")).await.expect(404);
    stack.finish().await;
}
