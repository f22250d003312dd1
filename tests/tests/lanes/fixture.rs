//! Helpers of the tests of lanes.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tidegate_core::{JobId, QueueKey};
use tidegate_store::{Store, StoreConfig};
use tidegate_testkit::{Daemon, QueueClient, ReceivedJob, Stack, eventually};

/// Longer than any wait for a state, on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request to the admin port; returns status and JSON.
pub(crate) async fn ask(
    api: &Daemon,
    method: &str,
    path_and_query: &str,
    body: &str,
) -> (u16, Value) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let url = format!("{}{path_and_query}", api.admin_url());
    let request = reqwest::Client::new().request(method, url);
    let answer = request.body(body.to_owned()).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap())
}

/// How many lanes of a queue are open, and how many are used.
pub(crate) async fn lanes(api: &Daemon, queue: &QueueClient) -> (u64, u64) {
    let path = format!("/v1/{}/queues/{}/lanes", queue.namespace(), queue.name());
    let (status, said) = ask(api, "GET", &path, "").await;
    assert_eq!(status, 200, "{said}");
    let count = |name: &str| said[name].as_u64().unwrap();
    (count("open"), count("used"))
}

pub(crate) fn key(queue: &QueueClient) -> QueueKey {
    let name = format!("{}/{}", queue.namespace(), queue.name());
    QueueKey::try_from(name.as_str()).unwrap()
}

/// A store on the Redis of a stack.
pub(crate) async fn store(stack: &Stack) -> Store {
    Store::connect(&StoreConfig::new(stack.redis.url()))
        .await
        .unwrap()
}

/// The bucket of a job.
pub(crate) fn bucket(id: &str) -> u16 {
    id.parse::<JobId>().unwrap().bucket()
}

/// Takes this many jobs, with one consume after the other, each of which took some: a consume waits for further lanes
/// for a quarter of a second only, which is too short if the machine stalls.
pub(crate) async fn take(queue: &QueueClient, count: usize) -> Vec<Vec<ReceivedJob>> {
    /// Of one consume.
    const COUNT_MAX: usize = 100;
    let (mut taken, mut missing) = (Vec::new(), count);
    while missing > 0 {
        let at_most = missing.min(COUNT_MAX) as u64;
        let consume = queue.consume().count(at_most).ttr_s(600).timeout_s(20);
        let jobs = consume.jobs().await;
        assert!(!jobs.is_empty(), "{missing} of {count} jobs did not come");
        missing -= jobs.len();
        taken.push(jobs);
    }
    taken
}

/// Waits until this many lanes of a queue are in use.
pub(crate) async fn until_used(api: &Daemon, queue: &QueueClient, used: u64) {
    let settled = async || match lanes(api, queue).await {
        (_, now) if now == used => Ok(()),
        (_, now) => Err(now),
    };
    eventually(&format!("{used} lanes are in use"), PATIENCE, settled).await;
}
