//! The connected nodes of a cluster.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::error::StoreError;
use crate::link::host_port::HostPort;
use crate::link::in_runtime::in_runtime;
use crate::link::link_config::ServerAccess;
use crate::link::server::StoreServer;

type Connecting = Arc<OnceCell<Arc<StoreServer>>>;

/// The nodes by address. A node is connected when it is first needed, and stays connected when the topology changes.
pub(super) struct Nodes {
    access: ServerAccess,
    /// The runtime of the connections.
    runtime: Handle,
    known: Mutex<HashMap<HostPort, Connecting>>,
}

impl Nodes {
    /// Without any node yet. Must be called inside the runtime of the connections.
    pub(super) fn new(access: ServerAccess) -> Self {
        Self {
            access,
            runtime: Handle::current(),
            known: Mutex::default(),
        }
    }

    /// The node at this address. Concurrent callers wait for the same connection.
    pub(super) async fn at(&self, host_port: &HostPort) -> Result<Arc<StoreServer>, StoreError> {
        let connecting = Arc::clone(self.known().entry(host_port.clone()).or_default());
        let connected = connecting.get_or_try_init(async || {
            let endpoint = self.access.at(host_port).map_err(StoreError::unreachable)?;
            let connecting = in_runtime(&self.runtime, endpoint.connect());
            Ok(Arc::new(connecting.await?))
        });
        connected.await.cloned()
    }

    /// Drops all nodes but these. Calls in flight to them continue.
    pub(super) fn retain(&self, addresses: &[HostPort]) {
        self.known()
            .retain(|host_port, _| addresses.contains(host_port));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<HostPort, Connecting>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
