//! Where it happens: what keeps the jobs, the daemons, and a proxy on every way between them.

mod keeper;
mod pod;

use std::path::Path;

use tidegate_testkit::daemon::Daemon;
use tidegate_testkit::{Program, Queue};

use crate::plan::{LEASE_MS, Plan};
use crate::traffic::queue_name;
pub(crate) use keeper::{Keeper, REPLICAS, Servers};
pub(crate) use pod::Pod;

/// Everything that takes part in a run, its clients aside.
#[derive(Debug)]
pub(crate) struct Site {
    // Dropped in this order: daemons do not see Redis go.
    pub(crate) apis: Vec<Pod>,
    pub(crate) pumps: Vec<Pod>,
    pub(crate) keeper: Keeper,
}

impl Site {
    /// Starts everything and waits until it is ready. Logs and settings go to `folder`.
    pub(crate) async fn start(plan: &Plan, folder: &Path) -> Self {
        let keeper = Keeper::start(plan.deployment).await;
        let (mut apis, mut pumps) = (Vec::new(), Vec::new());
        for number in 0..plan.apis {
            let name = format!("api-{number}");
            apis.push(Pod::start(Program::Api, &name, &[], &keeper, plan.seed, folder).await);
        }
        let lease = ["--lease".to_owned(), format!("{LEASE_MS}ms")];
        for number in 0..plan.pumps {
            let name = format!("pump-{number}");
            pumps.push(Pod::start(Program::Pumpd, &name, &lease, &keeper, plan.seed, folder).await);
        }
        Self {
            apis,
            pumps,
            keeper,
        }
    }

    /// A client's way to each API, in a namespace of the run's own.
    pub(crate) async fn doors(&self, seed: u64) -> Vec<Queue> {
        let namespace = format!("run-{seed}");
        let first = &self.apis[0].daemon;
        let queue = Queue::with_new_token(first, "default", &namespace, &queue_name(0)).await;
        let behind = |pod: &Pod| {
            let base = format!("http://{}", pod.front().address());
            Queue::new(&base, &namespace, &queue_name(0), queue.token())
        };
        self.apis.iter().map(behind).collect()
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
