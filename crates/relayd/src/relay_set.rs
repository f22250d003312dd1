//! The relays that run in this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tidegate_service::traces::Traces;
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
    refused: BTreeMap<String, RefusedRelay>,
}

struct RunningRelay {
    definition: Value,
    state: Arc<RelayState>,
    stop: CancellationToken,
    /// Cancelled when it has ended.
    ended: CancellationToken,
}

/// A relay that cannot run as it is defined.
struct RefusedRelay {
    definition: Value,
    reason: String,
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
    /// Relays that end when `stop` is cancelled, with a time of grace for deliveries in flight. Their spans go to `traces`.
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
    pub(crate) fn start(self: &Arc<Self>, relay: Relay) {
        let name = relay.state.name.clone();
        self.replace(&name, Value::Null, relay);
    }

    /// Makes the relays whose names satisfy `is_defined` those of `definitions`: starts new ones, stops those that are
    /// missing, and replaces those whose definition has changed. A definition that `build` refuses is shown, and the relay
    /// does not run.
    pub(crate) fn define(
        self: &Arc<Self>,
        is_defined: impl Fn(&str) -> bool,
        definitions: &BTreeMap<String, Value>,
        build: impl Fn(&str, &Value) -> Result<Relay, String>,
    ) {
        let names = self.table.lock().names();
        for name in names {
            if is_defined(&name) && !definitions.contains_key(&name) {
                self.remove(&name);
            }
        }
        for (name, definition) in definitions {
            if self.table.lock().definition(name) == Some(definition) {
                continue;
            }
            match build(name, definition) {
                Ok(relay) => self.replace(name, definition.clone(), relay),
                Err(reason) => self.refuse(name, definition.clone(), reason),
            }
        }
    }

    fn replace(self: &Arc<Self>, name: &str, definition: Value, mut relay: Relay) {
        relay.traces.clone_from(&self.traces);
        let (stop, ended) = (self.stop.child_token(), CancellationToken::new());
        let running = RunningRelay {
            definition,
            state: Arc::clone(&relay.state),
            stop: stop.clone(),
            ended: ended.clone(),
        };
        let mut table = self.table.lock();
        table.refused.remove(name);
        let before = table.running.insert(name.to_owned(), running);
        drop(table);
        let (process_stop, grace) = (self.stop.clone(), self.grace);
        self.tasks.spawn(async move {
            if let Some(before) = before {
                before.stop.cancel();
                before.ended.cancelled().await;
            }
            // It ends at once if it was stopped meanwhile.
            relay.run(stop, process_stop, grace).await;
            ended.cancel();
        });
    }

    fn refuse(self: &Arc<Self>, name: &str, definition: Value, reason: String) {
        tracing::warn!(relay = name, reason, "a relay cannot run");
        self.remove(name);
        let refused = RefusedRelay { definition, reason };
        self.table.lock().refused.insert(name.to_owned(), refused);
    }

    fn remove(self: &Arc<Self>, name: &str) {
        let mut table = self.table.lock();
        table.refused.remove(name);
        let Some(removed) = table.running.remove(name) else {
            return;
        };
        drop(table);
        removed.stop.cancel();
        let (set, name) = (Arc::clone(self), name.to_owned());
        self.tasks.spawn(async move {
            removed.ended.cancelled().await;
            if !set.table.lock().running.contains_key(&name) {
                RelayMetrics::remove(&name);
            }
        });
    }

    /// What the relay with this name was made of, or could not be made of.
    pub(crate) fn definition(&self, name: &str) -> Option<Value> {
        self.table.lock().definition(name).cloned()
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
    pub(crate) fn refused(&self) -> Vec<(String, String)> {
        let table = self.table.lock();
        let refused = table.refused.iter();
        refused
            .map(|(name, relay)| (name.clone(), relay.reason.clone()))
            .collect()
    }

    /// Waits until all relays have ended after a stop.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
