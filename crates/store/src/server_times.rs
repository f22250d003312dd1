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
            let time = answer.ok().map(|(seconds, micros)| {
                let now_ms = seconds * 1000 + micros / 1000;
                server.clock.record(sent_at, now_ms);
                ServerTime {
                    now_ms,
                    sent_at,
                    received_at: Instant::now(),
                }
            });
            (Arc::clone(&server.address), time)
        });
        join_all(looks).await
    }

    /// An upper bound of the time that has passed since the server of a bucket sent a message, `sent_at_ms` on its clock;
    /// `None` if its clock is not known yet.
    pub fn passed_since(&self, bucket: u16, sent_at_ms: u64) -> Option<Duration> {
        let server = self.inner.link.server_of(self.keys(bucket).prefix())?;
        let now_ms = server.clock.after(Duration::ZERO)?;
        Some(Duration::from_millis(now_ms.saturating_sub(sent_at_ms)))
    }
}
