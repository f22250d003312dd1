//! Relays as `tidegate-relayd` reads them.

use serde::{Deserialize, Serialize};

use crate::Namespace;

/// The answer to `GET /relays` on the admin port: the relays of all namespaces. `C` is the type of their settings:
/// `tidegate-relayd` reads JSON, since the API may be later than it and have settings that it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRelays<C> {
    /// The relays that the API can read.
    pub items: Vec<StoredRelayConfig<C>>,
    /// The relays that the API cannot read: they are damaged, or a later version has written them.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedRelay>,
}

/// A relay with its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRelayConfig<C> {
    pub namespace: Namespace,
    /// The name, unique in the namespace.
    pub name: String,
    /// The revision, which changes with the settings.
    pub revision: String,
    /// The settings, with secrets.
    pub config: C,
}

/// A relay that the API cannot read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedRelay {
    pub namespace: Namespace,
    pub name: String,
    /// Why it cannot be read.
    pub problem: String,
}
