//! Where it happens: what keeps the jobs, the daemons, and a proxy on every way between them.

mod keeper;
mod pod;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tidegate_core::{QueueKey, placement};
use tidegate_testkit::daemon::Daemon;
use tidegate_testkit::{Program, Queue};

use crate::plan::{LEASE_MS, Plan};
use crate::traffic::{Doors, LIMIT, QUEUES, Tokens, queue_name};
pub(crate) use keeper::{AUDITOR, Keeper, Servers};
pub(crate) use pod::Pod;
use pod::Wanted;

/// How many buckets a deployment has, unless it is set up otherwise.
pub(crate) const BUCKETS: u32 = 256;

/// The pool of all tokens.
pub(crate) const POOL: &str = "default";
/// Before a token is asked for again.
const PAUSE: Duration = Duration::from_millis(100);
const S: u64 = 1_000_000;

/// Everything that takes part in a run, its clients aside.
#[derive(Debug)]
pub(crate) struct Site {
    namespace: String,
    // Dropped in this order: daemons do not see Redis go.
    pub(crate) apis: Vec<Pod>,
    pub(crate) pumps: Vec<Pod>,
    pub(crate) keeper: Keeper,
}

impl Site {
    /// Starts everything and waits until it is ready. Logs and settings go to `folder`.
    pub(crate) async fn start(plan: &Plan, folder: &Path) -> Self {
        let keeper = Keeper::start(plan, folder).await;
        let (mut apis, mut pumps) = (Vec::new(), Vec::new());
        let start = async |wanted| Pod::start(wanted, &keeper, plan, folder).await;
        for number in 0..plan.apis {
            let wanted = Wanted {
                program: Program::Api,
                number,
                name: format!("api-{number}"),
                flags: &[],
                more_settings: durability(plan),
            };
            apis.push(start(wanted).await);
        }
        let lease = ["--lease".to_owned(), format!("{LEASE_MS}ms")];
        for number in 0..plan.pumps {
            let wanted = Wanted {
                program: Program::Pumpd,
                number: plan.apis + number,
                name: format!("pump-{number}"),
                flags: &lease,
                more_settings: String::new(),
            };
            pumps.push(start(wanted).await);
        }
        Self {
            namespace: format!("run-{}", plan.seed),
            apis,
            pumps,
            keeper,
        }
    }

    /// The ways of clients, in a namespace of the run's own, with the token of most clients; and the other tokens.
    pub(crate) async fn doors(&self) -> (Doors, Tokens) {
        let first = &self.apis[0].daemon;
        let usual = Queue::with_new_token(first, POOL, &self.namespace, &queue_name(0)).await;
        let tokens = Tokens {
            limited: self.new_token().await,
            guest: self.new_token().await,
        };
        let limited = usual.with_token(&tokens.limited);
        let (window_s, limit) = (LIMIT.window / S, LIMIT);
        limited
            .limit_token(first, limit.consumes, limit.publishes, window_s)
            .await;
        let at = |base: String| Queue::new(&base, &self.namespace, &queue_name(0), usual.token());
        let behind = |pod: &Pod| at(format!("http://{}", pod.front().address()));
        let doors = Doors {
            usual: self.apis.iter().map(behind).collect(),
            direct: self.apis.iter().map(|pod| at(pod.daemon.url())).collect(),
        };
        (doors, tokens)
    }

    /// Makes a token, at whichever API can.
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

    /// A queue of the run, behind its first API.
    pub(crate) fn queue(&self, number: u16) -> Queue {
        let base = self.apis[0].daemon.url();
        Queue::new(&base, &self.namespace, &queue_name(number), "")
    }

    /// The namespace of the run.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The bucket of a queue, as far as that has one lane.
    pub(crate) fn bucket(&self, queue: u16) -> u16 {
        let name = format!("{}/{}", self.namespace, queue_name(queue));
        let queue = QueueKey::try_from(name.as_str()).expect("the name of a queue");
        placement::bucket_of(&queue, 0, BUCKETS)
    }

    /// The buckets of the run's queues.
    pub(crate) fn buckets(&self) -> BTreeSet<u16> {
        (0..QUEUES).map(|queue| self.bucket(queue)).collect()
    }

    /// All daemons.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.apis.iter().chain(&self.pumps)
    }

    /// The names of daemons that have ended.
    pub(crate) fn ended(&self) -> Vec<&str> {
        let ended = self.pods().filter(|pod| !Daemon::is_running(&pod.daemon));
        ended.map(|pod| pod.name.as_str()).collect()
    }
}

/// What publishes wait for, as settings of an API.
fn durability(plan: &Plan) -> String {
    let replicas = plan.deployment.replicas();
    match (plan.is_synced, plan.is_replicated) {
        (true, _) => "[durability]\ndefault = \"fsync\"\n".to_owned(),
        (false, true) => format!("[durability]\ndefault = \"replica:{replicas}\"\n"),
        (false, false) => String::new(),
    }
}
