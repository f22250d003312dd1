//! The relays that run in this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tidegate::api::relay::{LastRelayError, RelayHealth, RelayStatus};
use tidegate_daemon::traces::{Traces, wall_clock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::relay::{Relay, RelayState};
use crate::relay_metrics::RelayMetrics;

/// Relays by name. They run until the process stops, or until they are replaced or removed.
pub(crate) struct RelaySet {
    stop: CancellationToken,
    grace: Duration,
    traces: Option<Traces>,
    table: Mutex<RelayTable>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct RelayTable {
    running: BTreeMap<String, RunningRelay>,
    /// The ends of relays that were removed and still have deliveries in flight.
    ending: BTreeMap<String, CancellationToken>,
    refused: BTreeMap<String, RefusedRelay>,
}

struct RunningRelay {
    definition: Value,
    state: Arc<RelayState>,
    stop: CancellationToken,
    /// Cancelled when it has ended.
    ended: CancellationToken,
}

/// A relay that cannot run as it is defined, and why.
struct RefusedRelay {
    definition: Value,
    error: LastRelayError,
}

impl RelayTable {
    fn definition(&self, name: &str) -> Option<&Value> {
        let running = self.running.get(name).map(|relay| &relay.definition);
        running.or_else(|| self.refused.get(name).map(|relay| &relay.definition))
    }

    fn names(&self) -> Vec<String> {
        let names = self.running.keys().chain(self.refused.keys());
        names.cloned().collect()
    }
}

impl RelaySet {
    /// Relays that end when `stop` is cancelled, with a time of grace for deliveries in flight. Their spans go to
    /// `traces`.
    pub(crate) fn new(stop: CancellationToken, grace: Duration, traces: Option<Traces>) -> Self {
        Self {
            stop,
            grace,
            traces,
            table: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Starts a relay that stays until the process stops.
    pub(crate) fn start(&self, relay: Relay) {
        let name = relay.state.name.clone();
        self.replace(&mut self.table.lock(), &name, Value::Null, relay);
    }

    /// Makes the relays whose names satisfy `is_defined` the relays of `definitions`: starts new ones, stops relays
    /// that are missing, and replaces those whose definition has changed. A definition that `build` refuses is shown,
    /// and the relay does not run.
    pub(crate) fn define(
        self: &Arc<Self>,
        is_defined: impl Fn(&str) -> bool,
        definitions: &BTreeMap<String, Value>,
        build: impl Fn(&str, &Value) -> Result<Relay, String>,
    ) {
        // Held while relays are built: a relay has its metrics from then on, and the removal of the metrics of a relay
        // with the same name before it must not come in between.
        let mut table = self.table.lock();
        for name in table.names() {
            if is_defined(&name) && !definitions.contains_key(&name) {
                self.remove(&mut table, &name);
            }
        }
        for (name, definition) in definitions {
            if table.definition(name) == Some(definition) {
                continue;
            }
            match build(name, definition) {
                Ok(relay) => self.replace(&mut table, name, definition.clone(), relay),
                Err(reason) => self.refuse(&mut table, name, definition.clone(), reason),
            }
        }
    }

    fn replace(&self, table: &mut RelayTable, name: &str, definition: Value, mut relay: Relay) {
        relay.traces.clone_from(&self.traces);
        let (stop, ended) = (self.stop.child_token(), CancellationToken::new());
        let running = RunningRelay {
            definition,
            state: Arc::clone(&relay.state),
            stop: stop.clone(),
            ended: ended.clone(),
        };
        table.refused.remove(name);
        let before = match table.running.insert(name.to_owned(), running) {
            Some(before) => {
                before.stop.cancel();
                Some(before.ended)
            }
            None => table.ending.remove(name),
        };
        let (process_stop, grace) = (self.stop.clone(), self.grace);
        self.tasks.spawn(async move {
            if let Some(before) = before {
                before.cancelled().await;
            }
            // It ends at once if it was stopped meanwhile.
            relay.run(stop, process_stop, grace).await;
            ended.cancel();
        });
    }

    fn refuse(
        self: &Arc<Self>,
        table: &mut RelayTable,
        name: &str,
        definition: Value,
        reason: String,
    ) {
        tracing::warn!(relay = name, reason, "a relay cannot run");
        self.remove(table, name);
        let error = LastRelayError {
            text: reason.into(),
            at: wall_clock().into(),
        };
        let refused = RefusedRelay { definition, error };
        table.refused.insert(name.to_owned(), refused);
    }

    fn remove(self: &Arc<Self>, table: &mut RelayTable, name: &str) {
        table.refused.remove(name);
        let Some(removed) = table.running.remove(name) else {
            return;
        };
        removed.stop.cancel();
        table.ending.insert(name.to_owned(), removed.ended.clone());
        let (set, name) = (Arc::clone(self), name.to_owned());
        self.tasks.spawn(async move {
            removed.ended.cancelled().await;
            let mut table = set.table.lock();
            // A relay that was set since then uses the metrics, or has been removed again and has not ended.
            let last = table.ending.get(&name);
            if last.is_some_and(CancellationToken::is_cancelled) {
                table.ending.remove(&name);
                RelayMetrics::remove(&name);
            }
        });
    }

    /// The definition from which the relay with this name was made, or could not be made.
    pub(crate) fn definition(&self, name: &str) -> Option<Value> {
        self.table.lock().definition(name).cloned()
    }

    /// Whether the relay with this name runs; `None` if there is none.
    pub(crate) fn status(&self, name: &str) -> Option<RelayStatus> {
        let table = self.table.lock();
        if let Some(relay) = table.running.get(name) {
            return Some(relay.state.status());
        }
        table.refused.get(name).map(|relay| RelayStatus {
            state: RelayHealth::Refused,
            since: Some(relay.error.at),
            last_error: Some(relay.error.clone()),
        })
    }

    /// The states of all relays, by name.
    pub(crate) fn states(&self) -> Vec<Arc<RelayState>> {
        let table = self.table.lock();
        table
            .running
            .values()
            .map(|relay| Arc::clone(&relay.state))
            .collect()
    }

    /// The relays that cannot run, and why.
    pub(crate) fn refused(&self) -> Vec<(String, LastRelayError)> {
        let table = self.table.lock();
        let refused = table.refused.iter();
        refused
            .map(|(name, relay)| (name.clone(), relay.error.clone()))
            .collect()
    }

    /// Waits until all relays have ended after a stop.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
