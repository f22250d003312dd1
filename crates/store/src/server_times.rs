//! What the clocks of servers show.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::Store;

/// What a server answered to a look at its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTime {
    /// What its clock showed, in ms since 1970.
    pub now_ms: u64,
    /// When it was asked.
    pub sent_at: Instant,
    /// When it had answered.
    pub received_at: Instant,
}

impl Store {
    /// Looks at the clock of each server that has keys. Answers their addresses, and nothing for one that does not answer
    /// within `limit`.
    pub async fn server_times(&self, limit: Duration) -> Vec<(Arc<str>, Option<ServerTime>)> {
        let servers = self.inner.link.servers();
        let looks = servers.into_iter().map(|server| async move {
            let (time, sent_at) = (redis::cmd("TIME"), Instant::now());
            let answer = server.session(limit).command::<(u64, u64)>(&time).await;
            server.measures.called("TIME", sent_at, answer.is_ok());
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
