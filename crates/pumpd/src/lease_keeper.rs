//! Holds this instance's share of the buckets. Each server has a separate task, so that a server that does not reply
//! does not delay others.
//!
//! On a cluster buckets move between servers. The task of the new server then holds the bucket; its lock moves with the
//! slot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::ServerBuckets;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::instance::Instance;
use crate::leases::BucketLeases;
use crate::server_lease_keeper::ServerLeaseKeeper;

/// Interval of checks which server has which buckets.
const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct LeaseKeeper {
    instance: Arc<Instance>,
    leases: Arc<BucketLeases>,
    servers: BTreeMap<Arc<str>, ServerTask>,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

struct ServerTask {
    buckets: watch::Sender<ServerBuckets>,
    task: AbortHandle,
}

impl LeaseKeeper {
    pub(crate) fn new(
        instance: Arc<Instance>,
        leases: Arc<BucketLeases>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            instance,
            leases,
            servers: BTreeMap::new(),
            tasks: JoinSet::new(),
            stop,
        }
    }

    /// Holds the share until `stop`, then releases it.
    pub(crate) async fn run(mut self) {
        let instance = Arc::clone(&self.instance);
        let mut roster_changed = instance.roster_changed.subscribe();
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                _ = ticks.tick() => self.follow(),
                // A change of servers causes a new subscription, which sends this notification.
                Ok(()) = roster_changed.changed() => self.follow(),
                Some(ended) = self.tasks.join_next() => resume_panic(ended),
            }
        }
        while let Some(ended) = self.tasks.join_next().await {
            resume_panic(ended);
        }
    }

    /// Starts tasks for new servers, ends the tasks of servers without buckets, and passes changed buckets to the
    /// others.
    fn follow(&mut self) {
        let servers = self.instance.store.buckets_by_server();
        self.instance.membership.follow(&servers);
        self.servers.retain(|address, kept| {
            let is_there = servers.iter().any(|it| it.address == *address);
            if !is_there {
                kept.task.abort();
            }
            is_there
        });
        for server in servers {
            match self.servers.get(&server.address) {
                Some(kept) => {
                    kept.buckets.send_if_modified(|known| {
                        let is_other = *known != server;
                        *known = server;
                        is_other
                    });
                }
                None => self.keep(server),
            }
        }
    }

    fn keep(&mut self, server: ServerBuckets) {
        let address = Arc::clone(&server.address);
        let (buckets, seen) = watch::channel(server);
        let (instance, leases) = (Arc::clone(&self.instance), Arc::clone(&self.leases));
        let lease_keeper = ServerLeaseKeeper::new(instance, leases, seen);
        let task = self.tasks.spawn(lease_keeper.run(self.stop.clone()));
        self.servers.insert(address, ServerTask { buckets, task });
    }
}

/// Passes a panic on: without its task the buckets of a server would be forgotten, and a restart recovers them.
fn resume_panic(ended: Result<(), JoinError>) {
    if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
        std::panic::resume_unwind(panic);
    }
}
