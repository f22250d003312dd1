//! Room for a bounded number of connections, and a hall for those that are only told to come back.

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
    Room(OwnedSemaphorePermit),
    /// To be told to come back.
    Hall(OwnedSemaphorePermit),
}

/// The places of a listener. Clones share them. Neither semaphore is ever closed.
#[derive(Clone)]
pub(crate) struct Places {
    connections_max: usize,
    room: Arc<Semaphore>,
    hall: Arc<Semaphore>,
    waiting: Option<WaitingConnections>,
}

impl Places {
    /// Room for so many connections. A connection that waits for a request is ended for one that finds no room, if
    /// it can be found among `waiting`.
    pub(crate) fn new(connections_max: usize, waiting: Option<WaitingConnections>) -> Self {
        Self {
            connections_max,
            room: Arc::new(Semaphore::new(connections_max)),
            hall: Arc::new(Semaphore::new(refused_max(connections_max))),
            waiting,
        }
    }

    /// Connections that are served.
    pub(crate) fn taken(&self) -> usize {
        self.connections_max - self.room.available_permits()
    }

    pub(crate) const fn waiting(&self) -> Option<&WaitingConnections> {
        self.waiting.as_ref()
    }

    /// A place in the room, if there is one now.
    pub(crate) fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_owned().ok()
    }

    /// Waits until there is a place for a connection.
    pub(crate) async fn next(&self) -> Option<Place> {
        let (room, hall) = (Arc::clone(&self.room), Arc::clone(&self.hall));
        tokio::select! {
            biased;
            permit = room.acquire_owned() => permit.ok().map(Place::Room),
            permit = hall.acquire_owned() => permit.ok().map(Place::Hall),
        }
    }

    /// This place, or a better one: a connection may have ended since, or can be ended.
    pub(crate) async fn or_better(&self, place: Place) -> Place {
        if let Place::Room(_) = place {
            return place;
        }
        if let Some(permit) = self.room() {
            return Place::Room(permit);
        }
        match &self.waiting {
            Some(waiting) if waiting.end_longest() => {
                let room = Arc::clone(&self.room).acquire_owned();
                match timeout(DISPLACE_LIMIT, room).await {
                    Ok(Ok(permit)) => Place::Room(permit),
                    _ => place,
                }
            }
            _ => place,
        }
    }

    /// Waits until nobody is in the room any more. To be called when nobody can come in.
    pub(crate) async fn all_left(&self) {
        let places = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        let _ = self.room.acquire_many(places).await;
    }
}
