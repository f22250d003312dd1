//! A second namespace that asks for more than its share.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::QueueClient;

use super::open_episode::OpenEpisode;
use crate::fault::PlannedFault;
use crate::history::Episode;
use crate::test_cluster::TestCluster;

const NAMESPACE: &str = "flood";
/// Schedules on one queue, so that its bucket has thousands of ticks a second.
const SCHEDULES: usize = 200;
const EVERY: &str = "100ms";
/// The pause before a request that has failed is sent again.
const PAUSE: Duration = Duration::from_millis(100);

/// Excuses nothing: what a namespace does delays no other one.
pub(super) async fn flood(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    let api = &test_cluster.apis[fault.target % test_cluster.apis.len()].daemon;
    let unnamed = QueueClient::new(&api.url(), NAMESPACE, "q", "");
    // An earlier fault may still have an effect.
    let Ok(key) = unnamed.try_new_api_key(api).await else {
        return vec![open_episode.end("no API key".to_owned())];
    };
    let flooding = unnamed.with_token(&key);
    let schedule = json!({"queue": "q", "every": EVERY, "job": {"payload": 1}});
    let mut set = 0;
    for number in 0..SCHEDULES {
        let path = format!("/schedules/s{number}");
        set += usize::from(sent(&flooding, "PUT", &path, Some(&schedule)).await);
    }
    tokio::time::sleep(fault.length()).await;
    for number in 0..SCHEDULES {
        let path = format!("/schedules/s{number}");
        end(&flooding, "DELETE", &path, None).await;
    }
    // At the end of the run no job may be left.
    let ready = json!({"state": "ready"});
    end(&flooding, "POST", "/queues/q/purge", Some(&ready)).await;
    vec![open_episode.end(format!("{set} schedules of {EVERY} in another namespace"))]
}

/// Sends a request, and returns whether it succeeded.
async fn sent(client: &QueueClient, method: &str, path: &str, body: Option<&Value>) -> bool {
    let kind = ("Content-Type".to_owned(), "application/json".to_owned());
    let headers: Vec<_> = body.iter().map(|_| kind.clone()).collect();
    let body = body.map(Value::to_string).unwrap_or_default();
    let answer = client.try_native(method, path, &headers, body.into_bytes());
    answer
        .await
        .is_ok_and(|answer| answer.status < 300 || answer.status == 404)
}

/// Sends a request until it has succeeded.
async fn end(client: &QueueClient, method: &str, path: &str, body: Option<&Value>) {
    while !sent(client, method, path, body).await {
        tokio::time::sleep(PAUSE).await;
    }
}
