//! Connection permits of a listener: a bounded number of connections is served, and some beyond it are answered
//! 503.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::waiting_connections::WaitingConnections;

/// For this many served connections, one beyond the limit is answered 503 at a time; at least `REFUSED_MIN` are.
const SERVED_PER_REFUSED: usize = 50;
const REFUSED_MIN: usize = 16;

/// Longest wait for the permit of a connection that was ended for a new one.
const DISPLACE_LIMIT: Duration = Duration::from_millis(100);

/// Number of connections beyond the limit that are answered 503 at a time.
pub(crate) fn rejected_max(connections_max: usize) -> usize {
    (connections_max / SERVED_PER_REFUSED).max(REFUSED_MIN)
}

/// The decision of a listener about a connection.
pub(crate) enum AdmissionDecision {
    Served(OwnedSemaphorePermit),
    /// Answers it with 503.
    Rejected(OwnedSemaphorePermit),
}

/// The connection permits of a listener. Clones share them. Neither semaphore is ever closed.
#[derive(Clone)]
pub(crate) struct ConnectionPermits {
    connections_max: usize,
    served: Arc<Semaphore>,
    rejected: Arc<Semaphore>,
    waiting: Option<WaitingConnections>,
}

impl ConnectionPermits {
    /// Creates permits for `connections_max` connections. With `waiting`, an idle connection is ended when a new
    /// one needs its permit.
    pub(crate) fn new(connections_max: usize, waiting: Option<WaitingConnections>) -> Self {
        Self {
            connections_max,
            served: Arc::new(Semaphore::new(connections_max)),
            rejected: Arc::new(Semaphore::new(rejected_max(connections_max))),
            waiting,
        }
    }

    /// Number of connections that are served.
    pub(crate) fn in_use(&self) -> usize {
        self.connections_max - self.served.available_permits()
    }

    pub(crate) const fn waiting(&self) -> Option<&WaitingConnections> {
        self.waiting.as_ref()
    }

    /// Takes a permit to serve a connection, if a permit is free.
    pub(crate) fn try_serve(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.served).try_acquire_owned().ok()
    }

    /// Waits for a free permit.
    pub(crate) async fn next(&self) -> Option<AdmissionDecision> {
        let (served, refused) = (Arc::clone(&self.served), Arc::clone(&self.rejected));
        tokio::select! {
            biased;
            permit = served.acquire_owned() => permit.ok().map(AdmissionDecision::Served),
            permit = refused.acquire_owned() => permit.ok().map(AdmissionDecision::Rejected),
        }
    }

    /// Replaces a permit for a 503 by a permit to serve, if a connection has ended since, or an idle one can be
    /// ended.
    pub(crate) async fn upgrade(&self, decision: AdmissionDecision) -> AdmissionDecision {
        if let AdmissionDecision::Served(_) = decision {
            return decision;
        }
        if let Some(permit) = self.try_serve() {
            return AdmissionDecision::Served(permit);
        }
        let served = Arc::clone(&self.served).acquire_owned();
        if let Some(waiting) = &self.waiting
            && waiting.end_longest()
            && let Ok(Ok(permit)) = timeout(DISPLACE_LIMIT, served).await
        {
            return AdmissionDecision::Served(permit);
        }
        decision
    }

    /// Waits until no connection is served. Call it after the last accept.
    pub(crate) async fn wait_until_idle(&self) {
        let permits = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        let _ = self.served.acquire_many(permits).await;
    }
}
