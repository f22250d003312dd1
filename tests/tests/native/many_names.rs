//! Lists of a namespace while another one has very many names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_core::keys::{API_KEYS, DeploymentKeys, api_keys_of};
use tidegate_core::{QueueKey, placement};
use tidegate_testkit::{NativeClient, Stack, print_figure};

const BUCKETS: u32 = 256;
const NAMES: usize = 60_000;
const ENOUGH: Duration = Duration::from_secs(5);

fn connection(stack: &Stack) -> redis::Connection {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    client.get_connection().unwrap()
}

/// Stores names of queues as publishes do, without jobs.
fn add_names(connection: &mut redis::Connection, namespace: &str, names: usize) {
    let keys = DeploymentKeys::new(BUCKETS);
    let mut by_bucket: BTreeMap<u16, Vec<QueueKey>> = BTreeMap::new();
    for number in 0..names {
        let queue = QueueKey::try_from(format!("{namespace}/q{number}").as_str()).unwrap();
        let bucket = placement::bucket_of(&queue, 0, BUCKETS);
        by_bucket.entry(bucket).or_default().push(queue);
    }
    let mut add = redis::pipe();
    for (bucket, queues) in by_bucket {
        let key = keys.keys(bucket).queues();
        let set = add.cmd("HSET").arg(&key);
        set.arg("#").arg(1_000_000);
        set.arg(format!("{namespace}/")).arg(queues.len());
        for (number, queue) in (1_000..).zip(&queues) {
            set.arg(queue.to_string()).arg(number);
        }
        set.ignore();
    }
    let () = add.query(connection).unwrap();
}

/// How often scripts were called since the last time.
fn script_calls(connection: &mut redis::Connection) -> u64 {
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(connection)
        .unwrap();
    let () = redis::cmd("CONFIG")
        .arg("RESETSTAT")
        .query(connection)
        .unwrap();
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"));
    let calls = line.and_then(|line| line.split_once("calls=")?.1.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

async fn walk(client: &NativeClient, list: &str) -> (Vec<Value>, usize) {
    let (mut items, mut pages) = (Vec::new(), 0);
    let mut path = list.to_owned();
    loop {
        let page = client.get(&path).await.expect(200).json();
        items.extend(page["items"].as_array().unwrap().clone());
        pages += 1;
        match page["next"].as_str() {
            Some(next) => path = format!("{list}&cursor={next}"),
            None => return (items, pages),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_of_another_namespace_cost_little() {
    let stack = Stack::builder().pumps(0).start().await;
    let mut connection = connection(&stack);
    add_names(&mut connection, "crowd", NAMES);
    add_names(&mut connection, "large", 3_000);
    let client = NativeClient::new(stack.api(0), "shop").await;
    for queue in ["a", "b", "c"] {
        client.publish(queue, "", "1").await.expect(201);
    }
    script_calls(&mut connection);
    let began = Instant::now();
    let (queues, pages) = walk(&client, "/queues?limit=100").await;
    let calls = script_calls(&mut connection);
    print_figure(&format!(
        "3 queues beside {NAMES}: {pages} page, {calls} calls, {:?}",
        began.elapsed()
    ));
    assert_eq!((queues.len(), pages), (3, 1));
    assert!(began.elapsed() < ENOUGH, "{:?}", began.elapsed());
    // One call for each bucket, and few more for the names in those with a queue of the namespace.
    assert!(calls < u64::from(BUCKETS) + 20, "{calls}");

    let crowd = NativeClient::new(stack.api(0), "crowd").await;
    let page = crowd.get("/queues?limit=100").await.expect(200).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 100);
    let calls = script_calls(&mut connection);
    assert!(calls < 40, "{calls} calls for a page");
    let large = NativeClient::new(stack.api(0), "large").await;
    let (queues, _) = walk(&large, "/queues?limit=400").await;
    let names: BTreeSet<_> = queues
        .iter()
        .map(|it| it["queue"].as_str().unwrap())
        .collect();
    assert_eq!((names.len(), queues.len()), (3_000, 3_000));
    stack.finish().await;
}

#[tokio::test]
async fn a_queue_with_several_lanes_is_listed_once() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let lanes = format!("{}/v1/shop/queues/wide/lanes", stack.api(0).admin_url());
    let set = reqwest::Client::new().put(lanes).body(r#"{"open":8}"#);
    set.send().await.unwrap().error_for_status().unwrap();
    for _ in 0..40 {
        client.publish("wide", "", "1").await.expect(201);
    }
    client.publish("narrow", "", "1").await.expect(201);
    let (queues, _) = walk(&client, "/queues?limit=1").await;
    let mut listed: Vec<_> = queues
        .iter()
        .map(|it| {
            (
                it["queue"].as_str().unwrap(),
                it["jobs"]["ready"].as_u64().unwrap(),
            )
        })
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, [("narrow", 1), ("wide", 40)]);
    stack.finish().await;
}

#[tokio::test]
async fn keys_of_another_namespace_cost_nothing() {
    const OTHERS: usize = 100_000;
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let create = json!({"description": "d", "scopes": ["publish"]});
    for _ in 0..3 {
        client.call("POST", "/keys", &create).await.expect(201);
    }
    let add = "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'other-' .. i, 'x') end";
    let mut add_keys = redis::cmd("EVAL");
    add_keys.arg(add).arg(1).arg(API_KEYS).arg(OTHERS);
    let mut connection = connection(&stack);
    let () = add_keys.query(&mut connection).unwrap();
    let (keys, pages) = walk(&client, "/keys?limit=100").await;
    assert_eq!(
        (keys.len(), pages),
        (4, 1),
        "3 keys, and that of the client"
    );

    let created = keys.iter().find(|key| key["description"] == "d").unwrap();
    let lost = created["id"].as_str().unwrap();
    let mut delete = redis::cmd("HDEL");
    let () = delete
        .arg(API_KEYS)
        .arg(lost)
        .query(&mut connection)
        .unwrap();
    assert_eq!(walk(&client, "/keys?limit=100").await.0.len(), 3);
    let mut count = redis::cmd("HLEN");
    let left: usize = count
        .arg(api_keys_of("shop"))
        .query(&mut connection)
        .unwrap();
    assert_eq!(left, 3, "a key that is gone no longer counts");
    stack.finish().await;
}

/// Stores relays as `PUT` does, each with a last error of this length.
fn add_relays(connection: &mut redis::Connection, namespace: &str, relays: usize, error: usize) {
    let config = json!({
        "source": {"kind": "queue", "queue": "orders"},
        "sink": {"kind": "webhook", "url": "https://a.example/hooks"},
    });
    let error = json!({"text": "x".repeat(error), "at": "2026-01-01T00:00:00.000Z"});
    let status = json!({"state": "failing", "since": null, "last_error": error});
    let mut add = redis::pipe();
    for number in 0..relays {
        let relay = format!("{namespace}/r{number:05}");
        let (set, report) = (
            format!("1.00000000 {config}"),
            format!("1.00000000 1 2 1 {status}"),
        );
        add.hset("tg:relays", &relay, set).ignore();
        add.hset("tg:{tg:relays}:reports", &relay, report).ignore();
    }
    let () = add.query(connection).unwrap();
}

fn sent_bytes(connection: &mut redis::Connection) -> u64 {
    let stats: String = redis::cmd("INFO").arg("stats").query(connection).unwrap();
    let bytes = stats
        .lines()
        .find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    bytes.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn a_list_of_relays_reads_those_of_its_namespace() {
    let stack = Stack::builder().pumps(0).start().await;
    let mut connection = connection(&stack);
    add_relays(&mut connection, "crowd", 20_000, 10);
    add_relays(&mut connection, "shop", 3, 10);
    let client = NativeClient::new(stack.api(0), "shop").await;
    let before = sent_bytes(&mut connection);
    let (relays, pages) = walk(&client, "/relays?limit=100").await;
    let sent = sent_bytes(&mut connection) - before;
    print_figure(&format!("3 relays beside 20,000: {sent} bytes from Redis"));
    assert_eq!((relays.len(), pages), (3, 1));
    assert!(sent < 100_000, "{sent}");
    stack.finish().await;
}

#[tokio::test]
async fn a_page_of_relays_is_bounded_with_their_states() {
    const RELAYS: usize = 1000;
    let stack = Stack::builder().pumps(0).start().await;
    add_relays(&mut connection(&stack), "shop", RELAYS, 1000);
    let client = NativeClient::new(stack.api(0), "shop").await;
    let page = client.get("/relays?limit=1000").await.expect(200);
    assert!(page.body.len() < (1 << 20) + 1000, "{}", page.body.len());
    let (relays, pages) = walk(&client, "/relays?limit=1000").await;
    let names: BTreeSet<_> = relays.iter().map(|it| it["name"].to_string()).collect();
    assert_eq!((relays.len(), names.len(), pages), (RELAYS, RELAYS, 2));
    let error = &relays[RELAYS - 1]["status"]["last_error"]["text"];
    assert_eq!(error.as_str().map(str::len), Some(1000));
    stack.finish().await;
}
