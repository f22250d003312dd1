//! A bounded number of connections that are served, and some beyond it that are answered 503.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::waiting::WaitingConnections;

/// One connection in so many beyond the limit is answered, but a few in any case.
const SERVED_PER_REFUSED: usize = 50;
const REFUSED_MIN: usize = 16;

/// A connection that was ended for another one makes room within this time.
const DISPLACE_LIMIT: Duration = Duration::from_millis(100);

/// Connections beyond the limit that are answered at a time.
pub(crate) fn refused_max(connections_max: usize) -> usize {
    (connections_max / SERVED_PER_REFUSED).max(REFUSED_MIN)
}

/// Where a connection goes.
pub(crate) enum Place {
    /// To be served.
    Served(OwnedSemaphorePermit),
    /// To be answered 503.
    Refused(OwnedSemaphorePermit),
}

/// The places of a listener. Clones share them. Neither semaphore is ever closed.
#[derive(Clone)]
pub(crate) struct Places {
    connections_max: usize,
    served: Arc<Semaphore>,
    refused: Arc<Semaphore>,
    waiting: Option<WaitingConnections>,
}

impl Places {
    /// Serves so many connections. One that waits for a request is ended for another one, if it can be found among
    /// `waiting`.
    pub(crate) fn new(connections_max: usize, waiting: Option<WaitingConnections>) -> Self {
        Self {
            connections_max,
            served: Arc::new(Semaphore::new(connections_max)),
            refused: Arc::new(Semaphore::new(refused_max(connections_max))),
            waiting,
        }
    }

    /// Connections that are served.
    pub(crate) fn taken(&self) -> usize {
        self.connections_max - self.served.available_permits()
    }

    pub(crate) const fn waiting(&self) -> Option<&WaitingConnections> {
        self.waiting.as_ref()
    }

    /// A place among those that are served, if one is free.
    pub(crate) fn try_serve(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.served).try_acquire_owned().ok()
    }

    /// Waits until there is a place for a connection.
    pub(crate) async fn next(&self) -> Option<Place> {
        let (served, refused) = (Arc::clone(&self.served), Arc::clone(&self.refused));
        tokio::select! {
            biased;
            permit = served.acquire_owned() => permit.ok().map(Place::Served),
            permit = refused.acquire_owned() => permit.ok().map(Place::Refused),
        }
    }

    /// This place, or a better one: a connection may have ended since, or can be ended.
    pub(crate) async fn or_better(&self, place: Place) -> Place {
        if let Place::Served(_) = place {
            return place;
        }
        if let Some(permit) = self.try_serve() {
            return Place::Served(permit);
        }
        match &self.waiting {
            Some(waiting) if waiting.end_longest() => {
                let served = Arc::clone(&self.served).acquire_owned();
                match timeout(DISPLACE_LIMIT, served).await {
                    Ok(Ok(permit)) => Place::Served(permit),
                    _ => place,
                }
            }
            _ => place,
        }
    }

    /// Waits until no connection is served any more. To be called when none is accepted.
    pub(crate) async fn all_left(&self) {
        let places = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        let _ = self.served.acquire_many(places).await;
    }
}
