//! One deployment for all walks, with a namespace for each.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, SharedStack, SharedStackGuard, Stack};

static STACK: SharedStack = SharedStack::new(Stack::builder);

/// A namespace of the shared deployment, with one queue.
pub(crate) struct DashboardFixture {
    pub(crate) stack: SharedStackGuard,
    pub(crate) client: NativeClient,
    pub(crate) namespace: String,
}

impl DashboardFixture {
    pub(crate) async fn new() -> Self {
        let stack = STACK.acquire().await;
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("shop-{number}");
        let client = NativeClient::new(stack.api(0), &namespace).await;
        Self {
            stack,
            client,
            namespace,
        }
    }

    /// Where the dashboard is.
    pub(crate) fn base(&self) -> String {
        self.stack.api(0).admin_url()
    }

    /// The path of the page of the queue `q`.
    pub(crate) fn queue(&self) -> String {
        format!("/ui/default/queues/{}/q", self.namespace)
    }

    /// Publishes a job with these options and returns its id.
    pub(crate) async fn publish(&self, options: &Value) -> String {
        publish(&self.client, options).await
    }

    /// The job, as the API shows it.
    pub(crate) async fn job(&self, id: &str) -> Value {
        let answer = self.client.get(&format!("/queues/q/jobs/{id}")).await;
        answer.expect(200).json()
    }

    /// Whether the job is gone.
    pub(crate) async fn is_gone(&self, id: &str) -> bool {
        let answer = self.client.get(&format!("/queues/q/jobs/{id}")).await;
        answer.status == 404
    }

    /// The number of jobs in a state.
    pub(crate) async fn count(&self, state: &str) -> u64 {
        let queue = self.client.get("/queues/q").await.expect(200).json();
        queue["jobs"][state].as_u64().unwrap()
    }

    /// Takes a job.
    pub(crate) async fn reserve(&self) -> Value {
        let body = json!({"queues": ["q"], "lease": "10m", "worker": "walker"});
        let answer = self
            .client
            .call("POST", "/reserve", &body)
            .await
            .expect(200);
        answer.json()["jobs"][0].clone()
    }

    /// Publishes a job that dies at once with an error, and returns its id.
    pub(crate) async fn dead_job(&self, error: &str) -> String {
        let id = self.publish(&json!({})).await;
        self.kill_all(error).await;
        id
    }

    /// Lets all jobs that are ready die, with an error.
    pub(crate) async fn kill_all(&self, error: &str) {
        kill_all(&self.client, error).await;
    }

    /// Publishes jobs that die at once.
    pub(crate) async fn dead_jobs(&self, jobs: usize) {
        for _ in 0..jobs {
            self.publish(&json!({})).await;
        }
        self.kill_all("x").await;
    }
}

/// Publishes a job with these options, and a payload if they have none.
pub(crate) async fn publish(client: &NativeClient, options: &Value) -> String {
    let mut job = options.clone();
    if job.get("payload_base64").is_none() && job.get("payload").is_none() {
        job["payload"] = json!({"a": 1});
    }
    let body = json!({"jobs": [job]});
    let answer = client.call("POST", "/queues/q/jobs/batch", &body).await;
    let results = answer.json();
    let id = results["results"][0]["id"].as_str();
    id.unwrap_or_else(|| panic!("{results}")).to_owned()
}

/// Ends all jobs that are ready, with an error.
async fn kill_all(client: &NativeClient, error: &str) {
    let body = json!({"queues": ["q"], "max_jobs": 100});
    let reserved = client.call("POST", "/reserve", &body).await;
    let reserved = reserved.expect(200).json();
    let leases = reserved["jobs"].as_array().unwrap().iter();
    let leases: Vec<Value> = leases
        .map(|job| json!({"lease": job["lease"], "error": error, "dead": true}))
        .collect();
    let body = json!({"leases": leases});
    client.call("POST", "/fail", &body).await.expect(200);
}

/// Sends a form, and returns the status and the page.
pub(crate) async fn post_form(stack: &Stack, path: &str, form: &str) -> (u16, String) {
    let token = "t".repeat(32);
    let answer = reqwest::Client::new()
        .post(format!("{}{path}", stack.api(0).admin_url()))
        .header("Cookie", format!("tidegate_form={token}"))
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(format!("{form}&form_token={token}"))
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}
