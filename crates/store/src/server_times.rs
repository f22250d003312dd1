//! Reads the clocks of the servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::store::Store;

/// The reply of a server to `TIME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTime {
    /// The time on its clock, in ms since 1970.
    pub now_ms: u64,
    /// When the command was sent.
    pub sent_at: Instant,
    /// When the reply was received.
    pub received_at: Instant,
}

impl Store {
    /// Reads the clock of each server that has keys. Returns the address of each server, with `None` if it does not
    /// reply within `limit`.
    pub async fn server_times(&self, limit: Duration) -> Vec<(Arc<str>, Option<ServerTime>)> {
        let servers = self.inner.link.servers();
        let looks = servers.into_iter().map(|server| async move {
            let (time, sent_at) = (redis::cmd("TIME"), Instant::now());
            let answer = server.session(limit).command::<(u64, u64)>(&time).await;
            server.measures.record_call("TIME", sent_at, answer.is_ok());
            let time = answer.ok().map(|(seconds, micros)| ServerTime {
                now_ms: seconds * 1000 + micros / 1000,
                sent_at,
                received_at: Instant::now(),
            });
            (Arc::clone(&server.address), time)
        });
        join_all(looks).await
    }
}
