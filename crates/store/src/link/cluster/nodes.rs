//! The nodes of a cluster that we are connected to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::StoreError;
use crate::link::route::{Access, Place};
use crate::link::server::Server;

type Connecting = Arc<OnceCell<Arc<Server>>>;

/// One connection per node, made when it is first needed and kept over all changes of the topology.
pub(super) struct Nodes {
    access: Access,
    known: Mutex<HashMap<Place, Connecting>>,
}

impl Nodes {
    pub(super) fn new(access: Access) -> Self {
        Self {
            access,
            known: Mutex::default(),
        }
    }

    /// The node at this place. Whoever else asks for it meanwhile waits for the same connection.
    pub(super) async fn at(&self, place: &Place) -> Result<Arc<Server>, StoreError> {
        let connecting = Arc::clone(self.known().entry(place.clone()).or_default());
        let connected = connecting.get_or_try_init(async || {
            let endpoint = self.access.at(place).map_err(StoreError::away)?;
            Ok(Arc::new(endpoint.connect().await?))
        });
        connected.await.cloned()
    }

    /// Forgets all nodes but these. Calls that are under way there go on.
    pub(super) fn retain(&self, places: &[Place]) {
        self.known().retain(|place, _| places.contains(place));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Place, Connecting>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
