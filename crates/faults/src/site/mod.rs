//! Where it happens: what keeps the jobs, the daemons, and a proxy on every way between them.

mod keeper;
mod pod;

use std::collections::BTreeSet;
use std::path::Path;

use tidegate_core::{QueueKey, placement};
use tidegate_testkit::daemon::Daemon;
use tidegate_testkit::{Program, Queue};

use crate::plan::{LEASE_MS, Plan};
use crate::traffic::{QUEUES, queue_name};
pub(crate) use keeper::{Keeper, Servers};
pub(crate) use pod::Pod;

/// How many buckets a deployment has, unless it is set up otherwise.
pub(crate) const BUCKETS: u32 = 256;

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
        let keeper = Keeper::start(plan.deployment, plan.seed).await;
        let (mut apis, mut pumps) = (Vec::new(), Vec::new());
        let durability = match plan.is_replicated {
            true => format!(
                "[durability]\ndefault = \"replica:{}\"\n",
                plan.deployment.replicas()
            ),
            false => String::new(),
        };
        let start = async |program, name: &str, flags: &[String], settings: &str| {
            Pod::start(program, name, flags, settings, &keeper, plan.seed, folder).await
        };
        for number in 0..plan.apis {
            apis.push(start(Program::Api, &format!("api-{number}"), &[], &durability).await);
        }
        let lease = ["--lease".to_owned(), format!("{LEASE_MS}ms")];
        for number in 0..plan.pumps {
            pumps.push(start(Program::Pumpd, &format!("pump-{number}"), &lease, "").await);
        }
        Self {
            namespace: format!("run-{}", plan.seed),
            apis,
            pumps,
            keeper,
        }
    }

    /// A client's way to each API, in a namespace of the run's own.
    pub(crate) async fn doors(&self) -> Vec<Queue> {
        let namespace = &self.namespace;
        let first = &self.apis[0].daemon;
        let queue = Queue::with_new_token(first, "default", namespace, &queue_name(0)).await;
        let behind = |pod: &Pod| {
            let base = format!("http://{}", pod.front().address());
            Queue::new(&base, namespace, &queue_name(0), queue.token())
        };
        self.apis.iter().map(behind).collect()
    }

    /// A queue of the run, behind its first API.
    pub(crate) fn queue(&self, number: u16) -> Queue {
        let base = self.apis[0].daemon.url();
        Queue::new(&base, &self.namespace, &queue_name(number), "")
    }

    /// The buckets of the run's queues.
    pub(crate) fn buckets(&self) -> BTreeSet<u16> {
        let queues = (0..QUEUES).filter_map(|number| {
            let name = format!("{}/{}", self.namespace, queue_name(number));
            QueueKey::try_from(name.as_str()).ok()
        });
        queues
            .map(|queue| placement::bucket_of(&queue, 0, BUCKETS))
            .collect()
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
