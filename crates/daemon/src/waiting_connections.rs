//! Registry of connections that wait for a request. If no permit is free for a new connection, the connection that
//! has waited longest can be ended, so that clients that send nothing cannot block the port.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The waiting connections of a listener. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingConnections(Arc<Mutex<WaitingState>>);

#[derive(Debug, Default)]
struct WaitingState {
    next_ticket: u64,
    /// The tokens that end them. Tickets ascend, so the first entry has waited longest.
    by_ticket: BTreeMap<u64, CancellationToken>,
}

/// The entry of a waiting connection. Dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct WaitingEntry {
    connections: WaitingConnections,
    ticket: u64,
}

impl WaitingConnections {
    /// Registers a waiting connection. `end` ends it.
    pub(crate) fn register(&self, end: CancellationToken) -> WaitingEntry {
        let mut inner = self.0.lock();
        let ticket = inner.next_ticket;
        inner.next_ticket += 1;
        inner.by_ticket.insert(ticket, end);
        drop(inner);
        WaitingEntry {
            connections: self.clone(),
            ticket,
        }
    }

    /// Ends the connection that has waited longest. Returns whether there was one.
    pub(crate) fn end_longest(&self) -> bool {
        let first = self.0.lock().by_ticket.pop_first();
        first.inspect(|(_, end)| end.cancel()).is_some()
    }
}

impl Drop for WaitingEntry {
    fn drop(&mut self) {
        self.connections.0.lock().by_ticket.remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_waiting_connection_is_ended_first() {
        let connections = WaitingConnections::default();
        let ends: Vec<_> = (0..3).map(|_| CancellationToken::new()).collect();
        let mut entries: Vec<_> = ends
            .iter()
            .map(|end| connections.register(end.clone()))
            .collect();
        drop(entries.remove(0));
        assert!(connections.end_longest());
        let is_ended: Vec<bool> = ends.iter().map(CancellationToken::is_cancelled).collect();
        assert_eq!(is_ended, [false, true, false]);
        drop(entries);
        assert!(!connections.end_longest());
    }
}
