//! Helpers of the tests of policies.

use std::time::{Duration, Instant};

use tidegate_testkit::{Answer, Daemon, QueueClient, eventually};
use tokio::task::JoinHandle;

/// Longer than any wait for a state, on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Ten times as long as a change takes to be in effect everywhere.
pub(crate) const EFFECTIVE_WITHIN: Duration = Duration::from_secs(10);

/// Sends a request without a token to the admin port.
pub(crate) async fn admin(api: &Daemon, method: &str, path: &str) -> Answer {
    let anyone = QueueClient::new(&api.admin_url(), "n", "q", "");
    anyone.raw(method, path).await
}

/// The policy of a queue, and its ETag.
pub(crate) async fn policy(api: &Daemon, queue: &QueueClient) -> (serde_json::Value, String) {
    let answer = queue.try_policy(api, "GET", "", None).await;
    let answer = answer.unwrap().expect(200);
    (answer.json(), answer.header("etag").unwrap().to_owned())
}

/// Makes an API read the policies now: a list is always current.
pub(crate) async fn read_now(api: &Daemon) {
    admin(api, "GET", "/v1/*/policies").await.expect(200);
}

/// A consumer that waits for a job; returns it, and when it arrived.
pub(crate) fn consumer(
    queue: &QueueClient,
    timeout_s: u64,
) -> JoinHandle<Option<(String, Instant)>> {
    let consume = queue.with_separate_connections().consume();
    tokio::spawn(async move {
        let job = consume.timeout_s(timeout_s).ttr_s(600).job().await?;
        Some((job.text(), Instant::now()))
    })
}

/// Publishes until the answer has this status, and returns that answer.
pub(crate) async fn publish_until(queue: &QueueClient, status: u16) -> Answer {
    eventually(
        "another answer to a publish",
        EFFECTIVE_WITHIN,
        async || match queue.publish("x").send().await.unwrap() {
            answer if answer.status == status => Ok(answer),
            answer => Err(answer),
        },
    )
    .await
}
