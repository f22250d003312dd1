//! A second namespace that asks for more than its share. Nothing is excused: no namespace delays another.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidegate_testkit::{Daemon, QueueClient};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::open_episode::OpenEpisode;
use crate::fault::PlannedFault;
use crate::history::{Episode, Wire};
use crate::test_cluster::TestCluster;
use crate::wire::HttpRequest;

const NAMESPACE: &str = "flood";
/// Schedules on one queue, so that its bucket has thousands of ticks a second.
const SCHEDULES: usize = 200;
const EVERY: &str = "100ms";
/// Queues that get a job each.
const QUEUES: usize = 300;
/// Connections that send at the same time.
const CONNECTIONS: usize = 20;
/// Names of one consume.
const NAMES: usize = 500;
/// Jobs with attributes of nearly 8 KiB, so that a list of them has nearly 1 MiB.
const WIDE_JOBS: usize = 100;
/// Lists that a connection requests, and does not read.
const LISTS: usize = 8;
/// The pause before a request that has failed is sent again.
const PAUSE: Duration = Duration::from_millis(100);

/// One of four floods.
pub(super) async fn flood(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    let api = &test_cluster.apis[fault.target % test_cluster.apis.len()].daemon;
    let unnamed = QueueClient::new(&api.url(), NAMESPACE, "q", "");
    // An earlier fault may still have an effect.
    let Ok(key) = unnamed.try_new_api_key(api).await else {
        return vec![open_episode.end("no API key".to_owned())];
    };
    let client = unnamed.with_token(&key);
    let length = fault.length();
    let what = match fault.variant_of(4) {
        0 => set_schedules(&client, length).await,
        1 => publish_to_many_queues(&client).await,
        2 => request_lists(&client, api, length).await,
        _ => consume_many_names(&client, length).await,
    };
    vec![open_episode.end(format!("{what} in another namespace"))]
}

async fn set_schedules(client: &QueueClient, length: Duration) -> String {
    let schedule = json!({"queue": "q", "every": EVERY, "job": {"payload": 1}});
    let mut set = 0;
    for number in 0..SCHEDULES {
        let path = format!("/schedules/s{number}");
        set += usize::from(sent(client, "PUT", &path, Some(&schedule)).await);
    }
    sleep(length).await;
    for number in 0..SCHEDULES {
        let path = format!("/schedules/s{number}");
        repeat_until_sent(client, "DELETE", &path, None).await;
    }
    purge(client, "q").await;
    format!("{set} schedules of {EVERY}")
}

async fn publish_to_many_queues(client: &QueueClient) -> String {
    let each_connection = async |connection: usize| {
        let mut published = 0;
        for number in (connection..QUEUES).step_by(CONNECTIONS) {
            let path = format!("/queues/n{number}/jobs");
            published += usize::from(sent(client, "POST", &path, Some(&json!(number))).await);
        }
        published
    };
    let published: usize = join_all((0..CONNECTIONS).map(each_connection))
        .await
        .iter()
        .sum();
    let purge_each = async |connection: usize| {
        for number in (connection..QUEUES).step_by(CONNECTIONS) {
            purge(client, &format!("n{number}")).await;
        }
    };
    join_all((0..CONNECTIONS).map(purge_each)).await;
    format!("{published} queues with a job each")
}

async fn request_lists(client: &QueueClient, api: &Daemon, length: Duration) -> String {
    let attribute = "a".repeat(250);
    let attributes: serde_json::Map<String, Value> = (0..30)
        .map(|number| (format!("name-{number}"), json!(attribute)))
        .collect();
    let job = json!({"payload": 1, "attributes": attributes});
    let jobs = json!({"jobs": vec![job; WIDE_JOBS]});
    sent(client, "POST", "/queues/q/jobs/batch", Some(&jobs)).await;
    let request = format!(
        "GET /v1/{NAMESPACE}/queues/q/jobs?limit={WIDE_JOBS} HTTP/1.1\r\nHost: tidegate\r\nAuthorization: Bearer {}\r\n\r\n",
        client.token()
    );
    let mut unread = Vec::new();
    for _ in 0..CONNECTIONS {
        if let Ok(mut connection) = TcpStream::connect(api.listen()).await
            && connection
                .write_all(request.repeat(LISTS).as_bytes())
                .await
                .is_ok()
        {
            unread.push(connection);
        }
    }
    sleep(length).await;
    let connections = unread.len();
    drop(unread);
    purge(client, "q").await;
    format!("{LISTS} lists on each of {connections} connections not read")
}

async fn consume_many_names(client: &QueueClient, length: Duration) -> String {
    let names: Vec<String> = (0..NAMES).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let each_connection = async |_| {
        loop {
            if client
                .consume_from(&names)
                .timeout_s(1)
                .send()
                .await
                .is_err()
            {
                sleep(PAUSE).await;
            }
        }
    };
    let consuming = join_all((0..CONNECTIONS).map(each_connection));
    let _: Result<Vec<()>, _> = timeout(length, consuming).await;
    format!("consumes of {NAMES} names on {CONNECTIONS} connections")
}

/// At the end of the run no job may be left.
async fn purge(client: &QueueClient, queue: &str) {
    let path = format!("/queues/{queue}/purge");
    let ready = json!({"state": "ready"});
    repeat_until_sent(client, "POST", &path, Some(&ready)).await;
}

/// Sends a request, and returns whether it succeeded.
async fn sent(
    client: &QueueClient,
    method: &'static str,
    path: &str,
    body: Option<&Value>,
) -> bool {
    let path = path.to_owned();
    let request = match body {
        Some(body) => HttpRequest::json(method, path, body),
        None => HttpRequest::without_body(method, path),
    };
    let request = request.sent_to(Wire::Native, client.namespace(), client.token());
    client
        .try_send(method, &request.path, &request.headers, request.body)
        .await
        .is_ok_and(|answer| answer.status < 300 || answer.status == 404)
}

async fn repeat_until_sent(
    client: &QueueClient,
    method: &'static str,
    path: &str,
    body: Option<&Value>,
) {
    while !sent(client, method, path, body).await {
        sleep(PAUSE).await;
    }
}
