//! Daemons and Redis die at any moment, the object store fails, and producers change their jobs meanwhile: each job is
//! delivered once, with its last payload.

use std::collections::HashMap;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use tidegate_testkit::{Answer, NativeClient, RedisOptions, eventually, print_figure, random};
use tokio::time::{Instant, sleep};

use crate::cold_stack::{ColdStack, HOUR_S};
use crate::s3_server::{S3Behaviour, S3Server};

/// How often something dies. `TIDEGATE_COLD_ROUNDS` sets another number.
const ROUNDS: u64 = 10;
const ROUNDS_VARIABLE: &str = "TIDEGATE_COLD_ROUNDS";
const JOBS_OF_ROUND: u64 = 25;
const QUEUE: &str = "storm";
const PUMPS: usize = 2;
/// A job whose payload could not be read is due again after a minute at most.
const DRAIN_LIMIT: Duration = Duration::from_secs(300);
/// The API connects again within seconds.
const CALL_LIMIT: Duration = Duration::from_secs(60);

struct Storm {
    cold: ColdStack,
    server: S3Server,
    client: NativeClient,
    random: StdRng,
    /// The last payload of each job by its key.
    expected: HashMap<String, Value>,
    published: u64,
    deaths: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_is_delivered_once_with_its_last_payload() {
    let rounds = std::env::var(ROUNDS_VARIABLE).ok();
    let rounds = rounds.map_or(ROUNDS, |text| text.parse().expect("a number"));
    let mut storm = Storm::start().await;
    for _ in 0..rounds {
        storm.publish().await;
        storm.edit().await;
        storm.disturb().await;
    }
    for hour in 1..=9 {
        storm.cold.forward(hour * HOUR_S);
        storm.disturb().await;
        let max_jobs = storm.random.random_range(1..=40);
        storm.consume(max_jobs).await;
    }
    storm.server.behave(S3Behaviour::Correct);
    storm.cold.forward(10 * HOUR_S);
    let end = Instant::now() + DRAIN_LIMIT;
    while !storm.expected.is_empty() {
        storm.consume(50).await;
        assert!(Instant::now() < end, "lost: {:?}", storm.expected);
    }
    print_figure(&format!(
        "{} jobs, {} deaths of daemons and Redis, {} requests to the object store",
        storm.published,
        storm.deaths,
        storm.server.requests()
    ));
    storm.cold.stack.finish().await;
}

impl Storm {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = S3Server::start(&folder.path().join("cold")).await;
        let environment = server.environment(S3Server::secret_key());
        let url = S3Server::url();
        let redis = RedisOptions::new().always_synced();
        let cold = ColdStack::start_with(redis, folder, &url, PUMPS, "", &environment).await;
        let client = NativeClient::new(cold.stack.api(0), "storm").await;
        Self {
            cold,
            server,
            client,
            random: random("cold storm"),
            expected: HashMap::new(),
            published: 0,
            deaths: 0,
        }
    }

    /// Sends a request, again while Redis has just been restarted.
    async fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        eventually("the api reaches redis", CALL_LIMIT, async || {
            let answer = match body {
                Value::Null => self.client.send(method, path, &[], b"").await,
                body => self.client.call(method, path, body).await,
            };
            match answer.status {
                503 => Err(answer.text()),
                _ => Ok(answer),
            }
        })
        .await
    }

    async fn publish(&mut self) {
        for _ in 0..JOBS_OF_ROUND {
            self.published += 1;
            let key = format!("job-{}", self.published);
            self.publish_as(&key).await;
        }
    }

    /// Publishes a job with this key, or replaces it, with another payload. Half of the payloads do not fit
    /// into a record.
    async fn publish_as(&mut self, key: &str) {
        let bytes = [200, 5000][self.random.random_range(0..2)];
        let letters: String = (0..bytes / 16)
            .map(|_| format!("{:016x}", self.random.random::<u64>()))
            .collect();
        let payload = json!({ "key": key, "letters": letters });
        let delay_s = self.random.random_range(2 * HOUR_S..8 * HOUR_S);
        let path = format!("/queues/{QUEUE}/jobs?key={key}&delay={delay_s}s&if_exists=replace");
        let answer = self.call("POST", &path, &payload).await;
        assert!(answer.status < 300, "{answer:?}");
        self.expected.insert(key.to_owned(), payload);
    }

    /// Replaces, cancels, moves and promotes some jobs.
    async fn edit(&mut self) {
        let mut keys: Vec<String> = self.expected.keys().cloned().collect();
        keys.sort();
        for _ in 0..8 {
            let Some(key) = keys.choose(&mut self.random).cloned() else {
                return;
            };
            let job = format!("/queues/{QUEUE}/jobs/key:{key}");
            match self.random.random_range(0..4) {
                0 => self.publish_as(&key).await,
                1 if self.expected.remove(&key).is_some() => {
                    let cancelled = self.call("DELETE", &job, &Value::Null).await;
                    // An earlier attempt may have been carried out.
                    assert!(matches!(cancelled.status, 200 | 404), "{cancelled:?}");
                    keys.retain(|other| *other != key);
                }
                2 => {
                    let run_in = self.random.random_range(HOUR_S..8 * HOUR_S);
                    let change = json!({ "delay": format!("{run_in}s") });
                    let changed = self.call("PATCH", &job, &change).await;
                    // A job that was promoted is ready.
                    assert!(matches!(changed.status, 200 | 409), "{changed:?}");
                }
                _ => {
                    let promote = format!("{job}/promote");
                    self.call("POST", &promote, &Value::Null).await.expect(200);
                }
            }
        }
    }

    /// Waits a moment, and lets something die or fail.
    async fn disturb(&mut self) {
        sleep(Duration::from_millis(self.random.random_range(0..1500))).await;
        let pump = self.random.random_range(0..PUMPS);
        match self.random.random_range(0..8) {
            0..=3 => {
                self.deaths += 1;
                self.cold.stack.pump(pump).kill();
                self.cold.stack.pump(pump).restart().await;
            }
            4 => {
                self.deaths += 1;
                self.cold.stack.api(0).kill();
                self.cold.stack.api(0).restart().await;
            }
            5 => {
                self.deaths += 1;
                self.cold.stack.redis.kill();
                self.cold.stack.redis.restart().expect("redis starts");
            }
            _ => {
                let behaviours = [
                    S3Behaviour::Correct,
                    S3Behaviour::Slow,
                    S3Behaviour::FailsHalf,
                    S3Behaviour::Alters,
                ];
                let behaviour = behaviours.choose(&mut self.random);
                self.server.behave(*behaviour.expect("there are some"));
            }
        }
    }

    /// Consumes jobs that are due, and compares their payloads.
    async fn consume(&mut self, max_jobs: u16) {
        let request =
            json!({"queues": [QUEUE], "max_jobs": max_jobs, "wait": "2s", "lease": "20s"});
        let answer = self.call("POST", "/reserve", &request).await;
        let jobs = answer.expect(200).json()["jobs"].clone();
        for job in jobs.as_array().expect("a list") {
            let key = job["key"].as_str().expect("each job has a key");
            let expected = self.expected.remove(key);
            assert_eq!(expected.as_ref(), Some(&job["payload"]), "{key}");
            let leases = json!({ "leases": [job["lease"]] });
            let acked = self.call("POST", "/ack", &leases).await.expect(200);
            assert_eq!(acked.json()["results"][0]["outcome"], "done", "{key}");
        }
    }
}
