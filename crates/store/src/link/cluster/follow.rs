//! Follows the topology. A task asks the primaries every two seconds, and immediately after a call was redirected or
//! failed. `docs/decisions/0018-cluster.md` explains the design.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::nodes::Nodes;
use super::topology::Topology;
use super::view::{ClusterView, SlotRange};
use crate::config::StoreConfig;
use crate::error::StoreError;
use crate::link::host_port::HostPort;
use crate::link::waits::bounded;
use crate::server_check;

/// Interval of checks.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Least time between two checks, since each failed call triggers one.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct TopologyFollower {
    config: StoreConfig,
    /// The configured nodes. They are asked at the start, and if too few of the known primaries reply.
    seeds: Vec<HostPort>,
    nodes: Arc<Nodes>,
    view: ClusterView,
    topology: watch::Sender<Arc<Topology>>,
    look: Arc<Notify>,
    /// Whether the last check failed. A failure is logged once.
    has_failed: bool,
}

impl TopologyFollower {
    /// Reads the topology, and follows it until the receiver is dropped.
    pub(super) async fn start(
        config: &StoreConfig,
        seeds: Vec<HostPort>,
        nodes: Arc<Nodes>,
        look: Arc<Notify>,
    ) -> Result<watch::Receiver<Arc<Topology>>, StoreError> {
        let (topology, receiver) = watch::channel(Arc::default());
        let mut follower = Self {
            config: config.clone(),
            seeds,
            nodes,
            view: ClusterView::default(),
            topology,
            look,
            has_failed: false,
        };
        follower.look().await?;
        let first = Arc::clone(&receiver.borrow());
        if !first.is_whole() {
            return Err(StoreError::not_ready(
                "some slots of the cluster have no reachable primary",
            ));
        }
        tokio::spawn(follower.run());
        Ok(receiver)
    }

    async fn run(mut self) {
        let receiver_gone = self.topology.clone();
        tokio::select! {
            () = receiver_gone.closed() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        loop {
            sleep(LOOK_PAUSE).await;
            tokio::select! {
                () = self.look.notified() => {}
                () = sleep(LOOK_INTERVAL) => {}
            }
            let before = Arc::clone(&self.topology.borrow());
            let looked = self.look().await;
            match &looked {
                Err(error) if !self.has_failed => {
                    tracing::warn!(%error, "failed to read the topology of the cluster: calls continue with the last known one; retrying every {LOOK_INTERVAL:?}");
                }
                Ok(()) if self.has_failed => {
                    tracing::info!("reading the topology of the cluster succeeds again")
                }
                _ => {}
            }
            self.has_failed = looked.is_err();
            self.check_new_primaries(&before);
        }
    }

    async fn look(&mut self) -> Result<(), StoreError> {
        let primaries = self.view.primaries();
        let view = match self.ask(&primaries, primaries.len() / 2 + 1).await {
            Ok(view) => view,
            Err(_) => self.ask_seeds().await?,
        };
        if view.epoch < self.view.epoch {
            return Err(StoreError::not_ready(
                "the reply has an earlier epoch: the node was partitioned, or the cluster was recreated",
            ));
        }
        let addresses = view.primaries();
        let connected = join_all(addresses.iter().map(|host_port| self.nodes.at(host_port))).await;
        let server_at = |primary: &HostPort| {
            let index = addresses
                .iter()
                .position(|host_port| host_port == primary)?;
            connected.get(index)?.as_ref().ok().cloned()
        };
        let ranges = view.ranges.iter().filter_map(|range| {
            Some(SlotRange {
                first: range.first,
                last: range.last,
                primary: server_at(&range.primary)?,
            })
        });
        let topology = Topology::new(ranges.collect());
        self.nodes.retain(&addresses);
        self.view = view;
        if !topology.is_same(&self.topology.borrow()) {
            self.topology.send_replace(Arc::new(topology));
        }
        let failures = connected.into_iter().filter_map(Result::err);
        failures.last().map_or(Ok(()), Err)
    }

    /// Asks these nodes at the same time, until `enough` of them have replied. Of the nodes that accept calls, or of
    /// all if none does, the view with the latest epoch is returned.
    async fn ask(&self, addresses: &[HostPort], enough: usize) -> Result<ClusterView, StoreError> {
        let mut queries: FuturesUnordered<_> = addresses
            .iter()
            .map(|host_port| self.ask_node(host_port))
            .collect();
        let (mut views, mut refusals) = (Vec::new(), Vec::new());
        while views.len() < enough {
            match queries.next().await {
                Some(Ok(view)) => views.push(view),
                Some(Err(refusal)) => refusals.push(refusal),
                None => return Err(combined_error(refusals)),
            }
        }
        let youngest = views
            .into_iter()
            .max_by_key(|view| (view.is_ok, view.epoch));
        youngest.ok_or_else(|| combined_error(refusals))
    }

    /// Asks the configured nodes. A node that has left the cluster may still reply, but has no slots: the first view of
    /// a node that accepts calls is returned.
    async fn ask_seeds(&self) -> Result<ClusterView, StoreError> {
        let seeds = self.seeds.iter();
        let mut queries: FuturesUnordered<_> =
            seeds.map(|host_port| self.ask_node(host_port)).collect();
        let (mut unusable, mut refusals) = (None, Vec::new());
        while let Some(answer) = queries.next().await {
            match answer {
                Ok(view) if view.is_ok => return Ok(view),
                Ok(view) => unusable = Some(view),
                Err(refusal) => refusals.push(refusal),
            }
        }
        unusable.ok_or_else(|| combined_error(refusals))
    }

    async fn ask_node(&self, host_port: &HostPort) -> Result<ClusterView, (HostPort, StoreError)> {
        let reply = async {
            let node = self.nodes.at(host_port).await?;
            let mut questions = redis::pipe();
            // The epoch is read first: otherwise old slots could be combined with a new epoch.
            questions.cmd("CLUSTER").arg("INFO");
            questions.cmd("CLUSTER").arg("SLOTS");
            let mut redis_connection = &node.connection;
            let asking = questions.query_async(&mut redis_connection);
            let (info, slots): (String, redis::Value) =
                bounded(self.config.connect_timeout, asking).await?;
            ClusterView::read(&info, slots, host_port)
        };
        reply.await.map_err(|error| (host_port.clone(), error))
    }

    /// Checks servers that became primaries since `before`. Problems are logged; the servers are used nevertheless.
    fn check_new_primaries(&self, before: &Topology) {
        for server in self.topology.borrow().servers() {
            if before.has(&server) {
                continue;
            }
            tracing::info!(%server, "the cluster has a new primary");
            let config = self.config.clone();
            tokio::spawn(async move {
                let session = server.session(config.command_timeout);
                server_check::check_primary(&session, &config).await;
            });
        }
    }
}

/// Combines the errors of all nodes. The reason is the reason of the last error, so that a wrong password is not
/// reported as an unreachable server.
fn combined_error(refusals: Vec<(HostPort, StoreError)>) -> StoreError {
    let said = refusals
        .iter()
        .map(|(host_port, error)| format!("{host_port}: {error}"));
    let said: Vec<String> = said.collect();
    let said = format!(
        "no node of the cluster reported its slots: {}",
        said.join("; ")
    );
    match refusals.last() {
        Some((_, StoreError::Unavailable { reason, .. })) => StoreError::unavailable(*reason, said),
        Some((_, StoreError::Corrupt(_))) => StoreError::corrupt(said),
        _ => StoreError::unreachable(said),
    }
}
