//! What workers say about the jobs that they hold.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack};

/// Leases of jobs that never were.
const GONE: [&str; 2] = [
    "01M83TRGX7026000001X148JA1.1.a",
    "01M83TRGX7026000001X148JA1.2t.none",
];

#[tokio::test]
async fn a_failed_job_climbs_its_ladder_and_dies() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let policy = json!({"retry": {"delays": ["300ms", "600ms"], "jitter": 0, "max_attempts": 3}});
    let path = "/queues/webhook/policy";
    client.call("PATCH", path, &policy).await.expect(200);
    client.publish("webhook", "", "x").await.expect(201);
    for attempt in 1..=3 {
        let job = client.reserve("webhook", 1).await.remove(0);
        assert_eq!(job["attempt"], attempt);
        assert_eq!(job["failures"], attempt - 1);
        let failed =
            json!({"leases": [{"lease": job["lease"], "error": format!("error {attempt}")}]});
        let outcome = &client.settle("fail", &failed).await[0];
        let expected = if attempt < 3 { "retry" } else { "dead" };
        assert_eq!(outcome["outcome"], expected, "{outcome}");
        let again = &client.settle("fail", &failed).await[0];
        assert_eq!(again["outcome"], "lost");
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_lost_worker_costs_no_attempt_until_there_were_too_many() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let id = client.publish("q", "lease=100ms&max_attempts=1", "x").await;
    let id = id.expect(201).json()["id"].clone();
    for losses in 0..5 {
        let job = client.reserve("q", 1).await.remove(0);
        assert_eq!((&job["id"], &job["failures"]), (&id, &json!(0)), "{losses}");
    }
    let path = format!("/queues/q/jobs/{}", id.as_str().unwrap());
    let dead = tidegate_testkit::eventually(
        "the job is dead",
        std::time::Duration::from_secs(20),
        async || match client.get(&path).await.expect(200).json() {
            job if job["state"] == "dead" => Ok(job),
            job => Err(job),
        },
    );
    let dead = dead.await;
    assert_eq!(
        (&dead["reason"], &dead["losses"]),
        (&json!("losses"), &json!(5))
    );
    stack.finish().await;
}

#[tokio::test]
async fn leases_of_several_queues_are_settled_in_one_call() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for queue in ["a", "b", "b"] {
        client.publish(queue, "", "x").await.expect(201);
    }
    let body = json!({"queues": ["a", "b"], "max_jobs": 3});
    let reserved = client
        .call("POST", "/reserve", &body)
        .await
        .expect(200)
        .json();
    let leases: Vec<_> = (0..3)
        .map(|job| reserved["jobs"][job]["lease"].clone())
        .collect();
    let other = NativeClient::new(stack.api(0), "other").await;
    let all = json!({"leases": leases});
    let foreign = other.settle("ack", &all).await;
    assert_eq!(foreign, vec![json!({"outcome": "gone"}); 3]);
    let extended = client
        .settle("touch", &json!({"leases": leases, "lease": "5m"}))
        .await;
    for outcome in &extended {
        assert_eq!(outcome["outcome"], "extended");
    }
    let mixed = json!({"leases": [GONE[0], leases[2], GONE[1], leases[0], leases[1]]});
    let acked = client.settle("ack", &mixed).await;
    let acked: Vec<_> = acked
        .iter()
        .map(|it| it["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(acked, ["gone", "done", "gone", "done", "done"]);
    stack.finish().await;
}

#[tokio::test]
async fn a_waiting_reserve_gets_a_job_that_is_published_later() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.reserve("q", 1).await });
    client.publish("q", "delay=300ms", "x").await.expect(201);
    assert_eq!(waiting.await.unwrap().len(), 1);
    let nothing = json!({"queues": ["q"], "wait": "50ms"});
    let nothing = client.call("POST", "/reserve", &nothing).await.expect(200);
    assert_eq!(nothing.json()["jobs"], json!([]));
    stack.finish().await;
}

/// Acks of one lease that arrive at the same time share calls. Each second lease is stale.
#[tokio::test]
async fn each_of_many_workers_gets_the_outcome_of_its_own_ack() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let items = vec![json!({"payload": 1}); 60];
    let path = "/queues/q/jobs/batch";
    let batch = client.call("POST", path, &json!({"jobs": items})).await;
    batch.expect(200);
    let jobs = client.reserve("q", 60).await;
    let lease = |(index, job): (usize, &Value)| {
        let lease = job["lease"].as_str().expect("a lease");
        match index % 2 {
            0 => lease.to_owned(),
            _ => lease.replacen(".1.", ".2.", 1),
        }
    };
    let leases: Vec<String> = jobs.iter().enumerate().map(lease).collect();
    let ack = async |lease: &String| client.settle("ack", &json!({"leases": [lease]})).await;
    let outcomes = join_all(leases.iter().map(ack)).await;
    for (index, outcome) in outcomes.into_iter().enumerate() {
        let expected = if index % 2 == 0 { "done" } else { "lost" };
        assert_eq!(outcome, [json!({"outcome": expected})], "{index}");
    }
    stack.finish().await;
}
