//! Following the topology: a task asks the primaries every few seconds, and at once when a call was sent
//! elsewhere or failed. `docs/decisions/0018-cluster.md` says why so.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::nodes::Nodes;
use super::topology::{Owned, Topology};
use super::view::View;
use crate::link::route::Place;
use crate::link::server::bounded;
use crate::{StoreConfig, StoreError, server_check};

/// The longest time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest: failing calls ask for a look each.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Follower {
    config: StoreConfig,
    /// The nodes that the settings name: where to begin, and to begin again when all others are gone.
    seeds: Vec<Place>,
    nodes: Arc<Nodes>,
    view: View,
    topology: watch::Sender<Arc<Topology>>,
    look: Arc<Notify>,
    /// What the last look ended with, if that was a failure: told once.
    trouble: bool,
}

impl Follower {
    /// Reads the topology and follows it from then on, until the receiver is dropped.
    pub(super) async fn start(
        config: &StoreConfig,
        seeds: Vec<Place>,
        nodes: Arc<Nodes>,
        look: Arc<Notify>,
    ) -> Result<watch::Receiver<Arc<Topology>>, StoreError> {
        let (topology, receiver) = watch::channel(Arc::default());
        let view = View {
            epoch: 0,
            is_ok: false,
            ranges: Vec::new(),
        };
        let mut follower = Self {
            config: config.clone(),
            seeds,
            nodes,
            view,
            topology,
            look,
            trouble: false,
        };
        follower.look().await?;
        let first = Arc::clone(&receiver.borrow());
        if !first.is_whole() {
            return Err(StoreError::not_ready(
                "not every slot of the cluster has a primary that can be reached".to_owned(),
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
                Err(error) if !self.trouble => {
                    tracing::warn!(%error, "the cluster cannot be followed; calls still go where they went");
                }
                Ok(()) if self.trouble => tracing::info!("the cluster is followed again"),
                _ => {}
            }
            self.trouble = looked.is_err();
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
                "who answers was cut off from the cluster, or it was made anew".to_owned(),
            ));
        }
        let places = view.primaries();
        let connected = join_all(places.iter().map(|place| self.nodes.at(place))).await;
        let server_at = |primary: &Place| {
            let index = places.iter().position(|place| place == primary)?;
            connected.get(index)?.as_ref().ok().cloned()
        };
        let ranges = view.ranges.iter().filter_map(|range| {
            Some(Owned {
                first: range.first,
                last: range.last,
                server: server_at(&range.primary)?,
            })
        });
        let topology = Topology::new(ranges.collect());
        self.nodes.retain(&places);
        self.view = view;
        if !topology.is_same(&self.topology.borrow()) {
            self.topology.send_replace(Arc::new(topology));
        }
        let failures = connected.into_iter().filter_map(Result::err);
        failures.last().map_or(Ok(()), Err)
    }

    /// Asks these nodes all at once, waits until `enough` of them have answered, and takes the youngest
    /// view of one that takes calls.
    async fn ask(&self, places: &[Place], enough: usize) -> Result<View, StoreError> {
        let mut asked: FuturesUnordered<_> =
            places.iter().map(|place| self.ask_node(place)).collect();
        let (mut views, mut refusals) = (Vec::new(), Vec::new());
        while views.len() < enough {
            match asked.next().await {
                Some(Ok(view)) => views.push(view),
                Some(Err(refusal)) => refusals.push(refusal),
                None => return Err(all_in_one(refusals)),
            }
        }
        let youngest = views
            .into_iter()
            .max_by_key(|view| (view.is_ok, view.epoch));
        youngest.ok_or_else(|| all_in_one(refusals))
    }

    /// Asks the nodes that the settings name. One that has left the cluster may still answer, and knows of no slots:
    /// the first node that takes calls decides.
    async fn ask_seeds(&self) -> Result<View, StoreError> {
        let mut asked: FuturesUnordered<_> = self
            .seeds
            .iter()
            .map(|place| self.ask_node(place))
            .collect();
        let (mut unusable, mut refusals) = (None, Vec::new());
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(view) if view.is_ok => return Ok(view),
                Ok(view) => unusable = Some(view),
                Err(refusal) => refusals.push(refusal),
            }
        }
        unusable.ok_or_else(|| all_in_one(refusals))
    }

    async fn ask_node(&self, place: &Place) -> Result<View, (Place, StoreError)> {
        let told = async {
            let node = self.nodes.at(place).await?;
            let mut questions = redis::pipe();
            // The epoch is asked for first: were it the other way round, old slots could come with a new
            // epoch.
            questions.cmd("CLUSTER").arg("INFO");
            questions.cmd("CLUSTER").arg("SLOTS");
            let mut line = &node.line;
            let asking = questions.query_async(&mut line);
            let (info, slots): (String, redis::Value) =
                bounded(self.config.connect_timeout, asking).await?;
            View::read(&info, slots, place)
        };
        told.await.map_err(|error| (place.clone(), error))
    }

    /// A server that became a primary while we run is used whatever it is; but what is wrong with it is
    /// told.
    fn check_new_primaries(&self, before: &Topology) {
        for server in self.topology.borrow().servers() {
            if before.has(&server) {
                continue;
            }
            tracing::info!(%server, "another primary of the cluster");
            let config = self.config.clone();
            tokio::spawn(async move {
                let session = server.session(config.command_timeout);
                server_check::check_primary(&session, &config).await;
            });
        }
    }
}

/// What each node said. A wrong password, or what makes no sense, is not the same as silence.
fn all_in_one(refusals: Vec<(Place, StoreError)>) -> StoreError {
    let said = refusals
        .iter()
        .map(|(place, error)| format!("{place}: {error}"));
    let said: Vec<String> = said.collect();
    let said = format!("the cluster does not tell its slots: {}", said.join("; "));
    match refusals.last() {
        Some((_, StoreError::Unavailable { reason, .. })) => StoreError::Unavailable {
            reason: *reason,
            detail: said,
        },
        Some((_, StoreError::Corrupt(_))) => StoreError::corrupt(said),
        _ => StoreError::away(said),
    }
}
