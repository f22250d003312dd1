//! Connections that wait for a request. Where there is no room for another connection, the one that has waited
//! longest can be ended: a client that sends nothing must not block the port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The waiting connections of a listener. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingConnections(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    next_ticket: u64,
    /// What ends each of them. Tickets grow, so the first has waited longest.
    by_ticket: BTreeMap<u64, CancellationToken>,
}

/// A connection that waits. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct WaitingEntry {
    connections: WaitingConnections,
    ticket: u64,
}

impl WaitingConnections {
    /// A connection waits from now on; `end` ends it.
    pub(crate) fn enter(&self, end: CancellationToken) -> WaitingEntry {
        let mut inner = self.lock();
        let ticket = inner.next_ticket;
        inner.next_ticket += 1;
        inner.by_ticket.insert(ticket, end);
        drop(inner);
        WaitingEntry {
            connections: self.clone(),
            ticket,
        }
    }

    /// Ends the connection that has waited longest. Returns whether there is one.
    pub(crate) fn end_longest(&self) -> bool {
        let first = self.lock().by_ticket.pop_first();
        first.inspect(|(_, end)| end.cancel()).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaitingEntry {
    fn drop(&mut self) {
        self.connections.lock().by_ticket.remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_ends_first_and_one_that_is_over_counts_no_more() {
        let connections = WaitingConnections::default();
        let ends: Vec<_> = (0..3).map(|_| CancellationToken::new()).collect();
        let mut entries: Vec<_> = ends
            .iter()
            .map(|end| connections.enter(end.clone()))
            .collect();
        drop(entries.remove(0));
        assert!(connections.end_longest());
        let is_ended: Vec<bool> = ends.iter().map(CancellationToken::is_cancelled).collect();
        assert_eq!(is_ended, [false, true, false]);
        drop(entries);
        assert!(!connections.end_longest());
    }
}
