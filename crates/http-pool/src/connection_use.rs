//! How far a connection was used, which hyper does not say when a request fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hyper::http::Extensions;
use hyper_util::client::legacy::connect::Connected;

/// The use of one connection, shared by its stream and the requests on it.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionUse(Arc<UseState>);

#[derive(Debug)]
struct UseState {
    connected_at: Instant,
    /// Whether a request before the last one was answered.
    is_reused: AtomicBool,
    /// Whether a byte was received since the last request began.
    is_answered: AtomicBool,
}

impl ConnectionUse {
    /// The use of a connection that is made now.
    pub(crate) fn new() -> Self {
        Self(Arc::new(UseState {
            connected_at: Instant::now(),
            is_reused: AtomicBool::new(false),
            is_answered: AtomicBool::new(false),
        }))
    }

    /// The use of a connection of the pool.
    pub(crate) fn of(connected: &Connected) -> Option<Self> {
        let mut extras = Extensions::new();
        connected.get_extras(&mut extras);
        extras.remove()
    }

    /// Another request begins.
    pub(crate) fn begin_next_request(&self) {
        self.0.is_reused.store(true, Ordering::Relaxed);
        self.0.is_answered.store(false, Ordering::Relaxed);
    }

    /// Bytes of an answer were received.
    pub(crate) fn receive(&self) {
        self.0.is_answered.store(true, Ordering::Relaxed);
    }

    /// Whether it was idle before a request that began at this time, and ended before the first byte of the answer.
    pub(crate) fn ended_unanswered(&self, begun: Instant) -> bool {
        // A connection that was made for another request may be idle before its first request.
        let was_idle = self.0.is_reused.load(Ordering::Relaxed) || self.0.connected_at < begun;
        was_idle && !self.0.is_answered.load(Ordering::Relaxed)
    }
}
