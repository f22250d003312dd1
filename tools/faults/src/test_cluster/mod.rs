//! The deployment under test: Redis servers, daemons, and a proxy on every connection between them.

mod daemon;
mod redis_backend;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tidegate_core::{QueueKey, placement};
use tidegate_testkit::daemon::Daemon;
use tidegate_testkit::{DaemonProgram, QueueClient};

use crate::deployment::LEASE_MS;
use crate::history::HeldQueue;
use crate::plan::Plan;
use crate::traffic::{Endpoints, LIMIT, RunTokens, policy_of, steady_queues};
use crate::wire::queue_name;
use daemon::DaemonSpec;
pub(crate) use daemon::DaemonUnderTest;
pub(crate) use redis_backend::{AUDITOR, RedisBackend, RedisServers};

/// The default number of buckets of a deployment.
pub(crate) const BUCKETS: u32 = 256;

/// The pool of all tokens.
pub(crate) const POOL: &str = "default";
/// Pause before another attempt to create a token.
const PAUSE: Duration = Duration::from_millis(100);
const S: u64 = 1_000_000;

/// Everything that takes part in a run, except the clients.
#[derive(Debug)]
pub(crate) struct TestCluster {
    namespace: String,
    // Dropped in this order: daemons end before Redis.
    pub(crate) apis: Vec<DaemonUnderTest>,
    pub(crate) pumps: Vec<DaemonUnderTest>,
    pub(crate) redis: RedisBackend,
}

impl TestCluster {
    /// Starts everything and waits until the daemons serve. Logs and settings go to `folder`.
    pub(crate) async fn start(plan: &Plan, folder: &Path) -> Self {
        let backend = RedisBackend::start(plan, folder).await;
        let (mut apis, mut pumps) = (Vec::new(), Vec::new());
        let start = async |wanted| DaemonUnderTest::start(wanted, &backend, plan, folder).await;
        for number in 0..plan.apis {
            let wanted = DaemonSpec {
                program: DaemonProgram::Api,
                number,
                name: format!("api-{number}"),
                flags: &[],
                // One serves all connections on its main thread, the next one has a further thread.
                first_settings: format!("threads = {}\n", 1 + number % 2),
                more_settings: durability(plan),
            };
            apis.push(start(wanted).await);
        }
        let lease = ["--lease".to_owned(), format!("{LEASE_MS}ms")];
        for number in 0..plan.pumps {
            let wanted = DaemonSpec {
                program: DaemonProgram::Pumpd,
                number: plan.apis + number,
                name: format!("pump-{number}"),
                flags: &lease,
                first_settings: String::new(),
                more_settings: String::new(),
            };
            pumps.push(start(wanted).await);
        }
        Self {
            namespace: format!("run-{}", plan.seed),
            apis,
            pumps,
            redis: backend,
        }
    }

    /// Returns the API endpoints for clients, in a namespace of the run, with the token of most clients; and the
    /// other tokens.
    pub(crate) async fn endpoints(&self) -> (Endpoints, RunTokens) {
        let first = &self.apis[0].daemon;
        let usual = QueueClient::with_new_token(first, POOL, &self.namespace, &queue_name(0)).await;
        let tokens = RunTokens {
            limited: self.new_token().await,
            guest: self.new_token().await,
            api_key: usual.try_new_api_key(first).await.expect("an API key"),
        };
        let limited = usual.with_token(&tokens.limited);
        let (window_s, limit) = (LIMIT.window / S, LIMIT);
        limited
            .limit_token(first, limit.consumes, limit.publishes, window_s)
            .await;
        let at =
            |base: String| QueueClient::new(&base, &self.namespace, &queue_name(0), usual.token());
        let behind = |pod: &DaemonUnderTest| at(format!("http://{}", pod.client_proxy().address()));
        let endpoints = Endpoints {
            proxied: self.apis.iter().map(behind).collect(),
            direct: self.apis.iter().map(|pod| at(pod.daemon.url())).collect(),
        };
        (endpoints, tokens)
    }

    /// Sets the policies of queues in each pool, by each API: the one that sets it knows it at once.
    pub(crate) async fn set_policies(&self, held: &[HeldQueue]) {
        let policies = held.iter().filter_map(|it| Some((it, policy_of(it)?)));
        for (held, policy) in policies {
            let queue = self.queue(held.queue);
            for api in &self.apis {
                for pool in self.redis.pools() {
                    queue.patch_policy_in(pool, &api.daemon, &policy).await;
                }
            }
        }
    }

    /// Creates a token. Tries all APIs until one succeeds.
    pub(crate) async fn new_token(&self) -> String {
        loop {
            for api in &self.apis {
                if let Ok(token) = self.queue(0).try_new_token(&api.daemon, POOL).await {
                    return token;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns a queue of the run, at its first API without a proxy.
    pub(crate) fn queue(&self, number: u16) -> QueueClient {
        let base = self.apis[0].daemon.url();
        QueueClient::new(&base, &self.namespace, &queue_name(number), "")
    }

    /// Returns the namespace of the run.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the bucket of the first lane of a queue.
    pub(crate) fn bucket(&self, queue: u16) -> u16 {
        let name = format!("{}/{}", self.namespace, queue_name(queue));
        let queue = QueueKey::try_from(name.as_str()).expect("the name of a queue");
        placement::bucket_of(&queue, 0, BUCKETS)
    }

    /// Returns the buckets of the run's queues.
    pub(crate) fn buckets(&self) -> BTreeSet<u16> {
        steady_queues().map(|queue| self.bucket(queue)).collect()
    }

    pub(crate) fn daemons(&self) -> impl Iterator<Item = &DaemonUnderTest> {
        self.apis.iter().chain(&self.pumps)
    }

    /// Returns the names of daemons that have ended.
    pub(crate) fn ended_daemons(&self) -> Vec<&str> {
        let ended = self
            .daemons()
            .filter(|pod| !Daemon::is_running(&pod.daemon));
        ended.map(|pod| pod.name.as_str()).collect()
    }
}

/// Returns the durability settings of an API.
fn durability(plan: &Plan) -> String {
    let replicas = plan.deployment.replicas();
    match (plan.is_synced, plan.is_replicated) {
        (true, _) => "[durability]\ndefault = \"fsync\"\n".to_owned(),
        (false, true) => format!("[durability]\ndefault = \"replica:{replicas}\"\n"),
        (false, false) => String::new(),
    }
}
