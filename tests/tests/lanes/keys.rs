//! Jobs with keys in queues with lanes. `tests/model/key_lanes.rs` checks their protocol in every order.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tidegate_core::LANES_SETTLE_INTERVAL;
use tidegate_testkit::{
    Answer, Daemon, FarApi, NativeClient, Stack, eventually, print_figure, random,
};

use tokio::time::{Instant, sleep};

use crate::fixture::{PATIENCE, bucket, store};

const DELAYED_KEYS: usize = 24;
const READY_KEYS: usize = 8;
/// How many operations pass between two changes of the number of lanes.
const OPERATIONS: usize = 400;

async fn set_lanes(client: &NativeClient, open: u16) -> Answer {
    let body = json!({"open": open});
    client.call("PUT", "/queues/orders/lanes", &body).await
}

fn connection(stack: &Stack) -> redis::Connection {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    client.get_connection().unwrap()
}

/// The row of the queue in the table of lanes.
fn row(stack: &Stack) -> Option<String> {
    let mut redis = connection(stack);
    let mut get = redis::cmd("HGET");
    get.arg("tg:lanes").arg("shop/orders");
    get.query(&mut redis).unwrap()
}

/// Waits until no job is placed by a former number of lanes.
async fn until_settled(stack: &Stack, expected: Option<&str>) {
    let is_settled = async || match row(stack) {
        row if row.as_deref().and_then(|row| row.rsplit(' ').next()) == expected => Ok(()),
        row => Err(format!("{row:?}")),
    };
    eventually("former numbers of lanes are dropped", PATIENCE, is_settled).await;
}

/// What clients of all APIs do meanwhile.
struct Load {
    clients: Vec<NativeClient>,
    operations: AtomicUsize,
    is_over: AtomicBool,
    /// Set when the jobs of all clients were delivered.
    is_consumed: AtomicBool,
    /// By key: the versions that were delivered.
    delivered: Mutex<HashMap<String, Vec<String>>>,
}

impl Load {
    fn client(&self, random: &mut StdRng) -> &NativeClient {
        &self.clients[random.random_range(0..self.clients.len())]
    }

    /// How many jobs with this key were delivered.
    fn arrived(&self, key: &str) -> usize {
        self.delivered.lock().unwrap().get(key).map_or(0, Vec::len)
    }

    fn goes_on(&self) -> bool {
        self.operations.fetch_add(1, Ordering::Relaxed);
        !self.is_over.load(Ordering::Relaxed)
    }
}

/// Publishes a number as JSON.
async fn publish_number(client: &NativeClient, options: &str, number: &str) -> Answer {
    let path = format!("/queues/orders/jobs?{options}");
    let kind = [("Content-Type", "application/json")];
    client.send("POST", &path, &kind, number.as_bytes()).await
}

/// Publishes, shows, changes and cancels a delayed job, which no other client uses: each answer is known.
async fn use_delayed_key(load: Arc<Load>, number: usize, mut random: StdRng) {
    let key = format!("delayed-{number}");
    let path = format!("/queues/orders/jobs/key:{key}");
    // The id and the version of the job.
    let mut job: Option<(Value, String)> = None;
    let mut versions = 0;
    while load.goes_on() {
        let client = load.client(&mut random);
        match random.random_range(0..6) {
            0 => {
                let shown = client.get(&path).await;
                match &job {
                    Some((id, version)) => {
                        assert_eq!(shown.expect(200).json()["id"], *id, "{key}");
                        let payload = client.get(&format!("{path}/payload")).await.expect(200);
                        assert_eq!(payload.text(), *version, "{key}");
                    }
                    None => drop(shown.expect(404)),
                }
            }
            1 => {
                let cancelled = client.send("DELETE", &path, &[], b"").await;
                let expected = if job.take().is_some() { 200 } else { 404 };
                cancelled.expect(expected);
            }
            2 => {
                let changed = client.call("PATCH", &path, &json!({"delay": "2h"})).await;
                changed.expect(if job.is_some() { 200 } else { 404 });
            }
            action => {
                versions += 1;
                let version = versions.to_string();
                let if_exists = ["keep", "replace", "reject"][action - 3];
                let options = format!("key={key}&delay=1h&if_exists={if_exists}");
                let answer = publish_number(client, &options, &version).await;
                match (&mut job, if_exists) {
                    (None, _) => {
                        let created = answer.expect(201).json();
                        assert_eq!(created["outcome"], "created", "{key} {created}");
                        job = Some((created["id"].clone(), version));
                    }
                    (Some(_), "reject") => drop(answer.expect(409)),
                    (Some((id, known)), _) => {
                        let exists = answer.expect(200).json();
                        assert_eq!(exists["id"], *id, "{key} {exists}");
                        if if_exists == "replace" {
                            *known = version;
                        }
                    }
                }
            }
        }
    }
}

/// Publishes a job that is ready, and waits for its delivery before it publishes the next one.
async fn use_ready_key(load: Arc<Load>, number: usize, mut random: StdRng) {
    let key = format!("ready-{number}");
    let mut published = 0;
    while load.goes_on() {
        let options = format!("key={key}&if_exists=reject");
        let client = load.client(&mut random);
        let payload = published.to_string();
        let answer = publish_number(client, &options, &payload).await;
        answer.expect(201);
        published += 1;
        let begun = Instant::now();
        while load.arrived(&key) < published {
            assert!(begun.elapsed() < PATIENCE, "{key}: {published} is lost");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Consumes and acknowledges. The answer to an ack precedes the entry, so that the key is free by then.
async fn consume(load: Arc<Load>, client: NativeClient) {
    while !load.is_consumed.load(Ordering::Relaxed) {
        let body = json!({"queues": ["orders"], "max_jobs": 4, "wait": "1s"});
        let reserved = client.call("POST", "/reserve", &body).await.expect(200);
        for job in reserved.json()["jobs"].as_array().unwrap() {
            let leases = json!({"leases": [{"lease": job["lease"]}]});
            let acked = client.settle("ack", &leases).await;
            assert_eq!(acked, [json!({"outcome": "done"})], "{job}");
            let (key, version) = (job["key"].as_str().unwrap(), &job["payload"]);
            let mut delivered = load.delivered.lock().unwrap();
            let versions = delivered.entry(key.to_owned()).or_default();
            let version = version.to_string();
            assert!(!versions.contains(&version), "{key}: {version} again");
            versions.push(version);
        }
    }
}

/// The calls of one API take long, so that it acts on old rows of the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_has_one_job_while_lanes_change_under_load() {
    let stack = Stack::builder().apis(2).pumps(2).start().await;
    let far = FarApi::start(&stack, "10s").await;
    let operator = NativeClient::new(stack.api(0), "shop").await;
    let on = |api: &Daemon| NativeClient::with_key(api, "shop", operator.key());
    let clients = vec![on(stack.api(0)), on(stack.api(1)), on(&far.api)];
    let load = Arc::new(Load {
        clients,
        operations: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        is_consumed: AtomicBool::new(false),
        delivered: Mutex::default(),
    });
    operator.publish("orders", "", "first").await.expect(201);
    operator.reserve("orders", 1).await;
    far.slow_down(Duration::from_millis(150));
    let mut tasks = Vec::new();
    for number in 0..DELAYED_KEYS {
        let seed = random(&format!("delayed {number}"));
        tasks.push(tokio::spawn(use_delayed_key(
            Arc::clone(&load),
            number,
            seed,
        )));
    }
    for number in 0..READY_KEYS {
        let seed = random(&format!("ready {number}"));
        tasks.push(tokio::spawn(use_ready_key(Arc::clone(&load), number, seed)));
    }
    let consumers =
        [stack.api(0), stack.api(1)].map(|api| tokio::spawn(consume(Arc::clone(&load), on(api))));
    let setters = [0, 1, 0, 1].map(|api| on(stack.api(api)));
    for (change, open) in [8, 2, 8, 1].into_iter().enumerate() {
        let passed = async || match load.operations.load(Ordering::Relaxed) {
            passed if passed >= (change + 1) * OPERATIONS => Ok(()),
            passed => Err(passed),
        };
        eventually("operations pass", PATIENCE, passed).await;
        set_lanes(&setters[change], open).await.expect(200);
    }
    let last = load.operations.load(Ordering::Relaxed) + OPERATIONS;
    let passed = async || match load.operations.load(Ordering::Relaxed) {
        passed if passed >= last => Ok(()),
        passed => Err(passed),
    };
    eventually("operations pass", PATIENCE, passed).await;
    load.is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    load.is_consumed.store(true, Ordering::Relaxed);
    for consumer in consumers {
        consumer.await.unwrap();
    }
    print_figure(&format!(
        "{} operations by key",
        load.operations.load(Ordering::Relaxed)
    ));
    for number in 0..DELAYED_KEYS {
        let path = format!("/queues/orders/jobs/key:delayed-{number}");
        operator.send("DELETE", &path, &[], b"").await;
        operator.get(&path).await.expect(404);
    }
    // Its only job is the first one, which is leased.
    let held = operator.get("/queues/orders").await.expect(200).json();
    assert_eq!(held["jobs"]["delayed"], 0, "a second job of a key: {held}");
    assert_eq!(held["jobs"]["leased"], 1, "{held}");
    until_settled(&stack, None).await;
    drop(far);
    stack.finish().await;
}

fn lane_of(store: &tidegate_store::Store, id: &Value) -> u16 {
    let queue = tidegate_core::QueueKey::try_from("shop/orders").unwrap();
    store
        .lane_in(bucket(id.as_str().unwrap()), &queue, 64)
        .unwrap()
}

async fn publish_batch(client: &NativeClient, body: Value) -> Answer {
    client
        .call("POST", "/queues/orders/jobs/batch", &body)
        .await
}

#[tokio::test]
async fn keys_are_spread_evenly_and_batches_are_split_by_lane() {
    const JOBS: usize = 8_000;
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let store = store(&stack).await;
    set_lanes(&client, 8).await.expect(200);
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    // Two keys of the same lane.
    let mut of_lanes: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for first in (0..JOBS).step_by(500) {
        let job = |number| json!({"payload": number, "key": format!("order-{number}")});
        let jobs: Vec<Value> = (first..first + 500).map(job).collect();
        let answer = publish_batch(&client, json!({"jobs": jobs})).await;
        let results = answer.expect(200).json()["results"].clone();
        for (result, number) in results.as_array().unwrap().iter().zip(first..) {
            assert_eq!(result["outcome"], "created", "{result}");
            let lane = lane_of(&store, &result["id"]);
            *counts.entry(lane).or_default() += 1;
            let keys = of_lanes.entry(lane).or_default();
            keys.push(format!("order-{number}"));
            if number % 1000 == 0 {
                let path = format!("/queues/orders/jobs/key:order-{number}");
                let shown = client.get(&path).await.expect(200).json();
                assert_eq!(shown["id"], result["id"]);
                let payload = client.get(&format!("{path}/payload")).await.expect(200);
                assert_eq!(payload.json(), json!(number));
            }
        }
    }
    print_figure(&format!("{JOBS} keys in 8 lanes: {counts:?}"));
    assert_eq!(counts.len(), 8);
    let even = JOBS / 8;
    assert!(
        counts.values().all(|jobs| jobs.abs_diff(even) * 10 <= even),
        "{counts:?}"
    );
    let replaced = |keys: [&String; 2], atomic: bool| {
        let job = |key| json!({"payload": 1, "key": key, "if_exists": "replace"});
        json!({"atomic": atomic, "jobs": keys.map(job)})
    };
    let (near, apart) = (
        [&of_lanes[&1][0], &of_lanes[&1][1]],
        [&of_lanes[&1][0], &of_lanes[&2][0]],
    );
    publish_batch(&client, replaced(near, true))
        .await
        .expect(201);
    publish_batch(&client, replaced(apart, false))
        .await
        .expect(200);
    let refused = publish_batch(&client, replaced(apart, true)).await;
    let refused = refused.expect(409).json();
    assert_eq!(refused["code"], "keys_in_several_lanes", "{refused}");
    assert_eq!(refused["applied"], "no");
    stack.finish().await;
}

#[tokio::test]
async fn a_refused_replacement_leaves_the_result_in_a_former_lane() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let store = store(&stack).await;
    // Two keys that go to two other lanes.
    let queue = tidegate_core::QueueKey::try_from("shop/orders").unwrap();
    let lane = |key: &str| tidegate_core::KeyHash::of_job(&queue, key).lane(8);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let leaves = |lane_of_key: u16| names.into_iter().find(|key| lane(key) == lane_of_key);
    let keys: Vec<&str> = (1..8).filter_map(leaves).take(2).collect();
    let publish = async |key: &str| {
        let options = format!("key={key}&if_exists=replace&retain=1h");
        client
            .publish("orders", &options, "x")
            .await
            .expect(201)
            .json()
    };
    for key in &keys {
        publish(key).await;
        let lease = &client.reserve("orders", 1).await[0]["lease"];
        let ack = json!({"leases": [{"lease": lease, "result": key}]});
        assert_eq!(
            client.settle("ack", &ack).await,
            [json!({"outcome": "done"})]
        );
    }
    set_lanes(&client, 8).await.expect(200);
    let result = async |key: &str| {
        client
            .get(&format!("/queues/orders/jobs/key:{key}/result"))
            .await
    };
    let job = |key| json!({"payload": 1, "key": key, "if_exists": "replace"});
    let jobs = [job(keys[0]), job(keys[1])];
    let both = json!({"atomic": true, "jobs": jobs});
    let refused = publish_batch(&client, both).await.expect(409).json();
    assert_eq!(
        (&refused["code"], &refused["applied"]),
        (&json!("keys_in_several_lanes"), &json!("no"))
    );
    for key in &keys {
        assert_eq!(result(key).await.expect(200).json(), *key);
    }
    let replaced = publish(keys[0]).await;
    assert_eq!(lane_of(&store, &replaced["id"]), lane(keys[0]));
    let shown = client
        .get(&format!("/queues/orders/jobs/key:{}", keys[0]))
        .await
        .expect(200)
        .json();
    assert_eq!(shown["id"], replaced["id"]);
    assert_eq!(result(keys[1]).await.expect(200).json(), keys[1]);
    stack.finish().await;
}

#[tokio::test]
async fn a_request_is_repeated_across_changes_of_lanes() {
    let stack = Stack::builder().apis(2).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let second = NativeClient::with_key(stack.api(1), "shop", client.key());
    let publish = async |client: &NativeClient, request: &str| {
        let headers = [("Idempotency-Key", request)];
        let path = "/queues/orders/jobs?delay=1h";
        client.send("POST", path, &headers, b"x").await
    };
    // In the first round two jobs, which would be in different lanes later.
    let batch = |request: &str| {
        let jobs = if request.starts_with("atomic-0") {
            2
        } else {
            1
        };
        let jobs = (0..jobs)
            .map(|job| json!({"payload": 1, "idempotency_key": format!("{request}-{job}")}));
        json!({"atomic": true, "jobs": jobs.collect::<Vec<Value>>()})
    };
    let mut ids: Vec<(String, String, Value)> = Vec::new();
    for (round, open) in [8, 2, 1].into_iter().enumerate() {
        for number in 0..10 {
            let request = format!("request-{round}-{number}");
            let id = publish(&client, &request).await.expect(201).json()["id"].clone();
            ids.push((request, "jobs".to_owned(), id));
            let request = format!("atomic-{round}-{number}");
            let answer = publish_batch(&second, batch(&request)).await.expect(201);
            let id = answer.json()["results"][0]["id"].clone();
            ids.push((request, "batch".to_owned(), id));
        }
        set_lanes(&second, open).await.expect(200);
        for (request, kind, id) in &ids {
            let repeated = match kind.as_str() {
                "jobs" => publish(&client, request).await.expect(200).json(),
                _ => publish_batch(&client, batch(request))
                    .await
                    .expect(201)
                    .json()["results"][0]
                    .clone(),
            };
            assert_eq!(repeated["id"], *id, "{request} with {open} lanes");
        }
    }
    let held = client.get("/queues/orders").await.expect(200).json();
    assert_eq!(held["jobs"]["delayed"], 30, "{held}");
    assert_eq!(held["jobs"]["ready"], 40, "{held}");
    let other = client.send(
        "POST",
        "/queues/orders/jobs",
        &[("Idempotency-Key", "request-0-0")],
        b"y",
    );
    other.await.expect(422);
    stack.finish().await;
}

#[tokio::test]
async fn a_request_is_repeated_while_former_numbers_could_be_settled() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let publish = async |number: usize| {
        let request = format!("request-{number}");
        let headers = [("Idempotency-Key", request.as_str())];
        client
            .send("POST", "/queues/orders/jobs", &headers, b"x")
            .await
    };
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(publish(number).await.expect(201).json()["id"].clone());
    }
    set_lanes(&client, 8).await.expect(200);
    sleep(2 * LANES_SETTLE_INTERVAL + Duration::from_secs(1)).await;
    assert!(row(&stack).unwrap().ends_with(" 8,1"));
    for (number, id) in ids.iter().enumerate() {
        let repeated = publish(number).await.expect(200).json();
        assert_eq!(repeated["id"], *id);
    }
    stack.finish().await;
}

#[tokio::test]
async fn lanes_change_no_more_while_keys_are_placed_by_too_many_numbers() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for (round, open) in [2, 4, 8].into_iter().enumerate() {
        for number in 0..40 {
            let options = format!("key={round}-{number}&delay=1h");
            client.publish("orders", &options, "x").await.expect(201);
        }
        set_lanes(&client, open).await.expect(200);
    }
    let refused = set_lanes(&client, 16).await.expect(409).json();
    assert_eq!(refused["code"], "lanes_unsettled", "{refused}");
    assert!(
        refused["detail"].as_str().unwrap().contains("8,1,2,4"),
        "{refused}"
    );
    set_lanes(&client, 4).await.expect(200);
    for round in 0..3 {
        for number in 0..40 {
            let path = format!("/queues/orders/jobs/key:{round}-{number}");
            client.send("DELETE", &path, &[], b"").await.expect(200);
        }
    }
    set_lanes(&client, 16).await.expect(200);
    until_settled(&stack, Some("16")).await;
    // The keys of a queue whose row is gone are found, and the lanes refuse the processes that know another row.
    set_lanes(&client, 1).await.expect(200);
    until_settled(&stack, None).await;
    client
        .publish("orders", "key=0-0&delay=1h", "x")
        .await
        .expect(201);
    let shown = client.get("/queues/orders/jobs/key:0-0").await;
    shown.expect(200);
    stack.finish().await;
}

/// A set of another queue, or of this one, by a process that has read the lost rows, does not hide the loss.
#[tokio::test]
async fn a_set_after_the_table_of_lanes_was_lost_restores_it_first() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let publish = async |number: usize| {
        let options = format!("key=order-{number}&delay=1h");
        client.publish("orders", &options, "x").await
    };
    for (before, after, other) in [(2, 8, "orders"), (4, 4, "other")] {
        set_lanes(&client, before).await.expect(200);
        let mut ids = Vec::new();
        for number in 0..20 {
            ids.push(publish(number).await.json()["id"].clone());
        }
        let mut redis = connection(&stack);
        let mut forget = redis::cmd("DEL");
        forget.arg("tg:lanes").exec(&mut redis).unwrap();
        let path = format!("/queues/{other}/lanes");
        let body = json!({"open": after});
        client.call("PUT", &path, &body).await.expect(200);
        let numbers = row(&stack).expect("the row is restored");
        let numbers = numbers.rsplit(' ').next().unwrap().split(',');
        assert!(
            numbers
                .map(str::to_owned)
                .any(|number| number == before.to_string())
        );
        for (number, id) in ids.iter().enumerate() {
            let kept = publish(number).await.expect(200).json();
            assert_eq!(kept["id"], *id, "order-{number}");
        }
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_key_keeps_its_job_after_the_table_of_lanes_lost_a_change() {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    set_lanes(&client, 8).await.expect(200);
    let publish = async |client: &NativeClient, number: usize| {
        let options = format!("key=order-{number}&delay=1h");
        client.publish("orders", &options, "x").await
    };
    let mut ids = Vec::new();
    for number in 0..20 {
        ids.push(publish(&client, number).await.expect(201).json()["id"].clone());
    }
    let far = FarApi::start(&stack, "10s").await;
    let late = NativeClient::with_key(&far.api, "shop", client.key());
    late.get("/queues/orders").await.expect(200);
    let mut redis = connection(&stack);
    let mut forget = redis::cmd("DEL");
    forget.arg("tg:lanes").exec(&mut redis).unwrap();
    for (number, id) in ids.iter().enumerate() {
        for client in [&client, &late] {
            let kept = publish(client, number).await.expect(200).json();
            assert_eq!(kept["id"], *id, "order-{number}");
        }
    }
    stack.finish().await;
}
