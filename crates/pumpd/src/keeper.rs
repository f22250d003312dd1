//! Keeps our share of the buckets: one task for each server, so that none waits for a server that does not answer.
//!
//! Which server has which buckets changes on a cluster. A bucket that moves with its slot is kept by the task of its new
//! server; the lock moves with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::ServerBuckets;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::leases::{Change, Leases};
use crate::pump::Pool;
use crate::server_keeper::ServerKeeper;

/// Between two looks at which server has which buckets.
const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Keeper {
    pool: Arc<Pool>,
    leases: Arc<Leases>,
    servers: BTreeMap<Arc<str>, Kept>,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

/// A server whose buckets are kept.
struct Kept {
    buckets: watch::Sender<ServerBuckets>,
    task: AbortHandle,
}

impl Keeper {
    pub(crate) fn new(
        pool: Arc<Pool>,
        changes: mpsc::UnboundedSender<Change>,
        stop: CancellationToken,
    ) -> Self {
        let leases = Leases::new(changes, pool.measures.held());
        Self {
            pool,
            leases: Arc::new(leases),
            servers: BTreeMap::new(),
            tasks: JoinSet::new(),
            stop,
        }
    }

    /// Keeps our share until told to stop, then hands everything back.
    pub(crate) async fn run(mut self) {
        let pool = Arc::clone(&self.pool);
        let mut roster_changed = pool.roster_changed.subscribe();
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                _ = ticks.tick() => self.follow(),
                // Also after each new subscription, which is what a change of servers leads to.
                Ok(()) = roster_changed.changed() => self.follow(),
                Some(ended) = self.tasks.join_next() => pass_panic_on(ended),
            }
        }
        while let Some(ended) = self.tasks.join_next().await {
            pass_panic_on(ended);
        }
    }

    /// Starts tasks for new servers, ends those of servers without buckets, and tells the others what they have now.
    fn follow(&mut self) {
        let servers = self.pool.store.buckets_by_server();
        self.pool.membership.follow(&servers);
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
        let (pool, leases) = (Arc::clone(&self.pool), Arc::clone(&self.leases));
        let keeper = ServerKeeper::new(pool, leases, seen);
        let task = self.tasks.spawn(keeper.run(self.stop.clone()));
        self.servers.insert(address, Kept { buckets, task });
    }
}

/// After a defect it is better to die and be replaced than to forget the buckets of a server.
fn pass_panic_on(ended: Result<(), JoinError>) {
    if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
        std::panic::resume_unwind(panic);
    }
}
