//! Servers with a publish that takes long: publishes to queues with several lanes go to other servers until it has ended.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

/// A publish that takes longer is overdue. Less than the time after which a queue continues without a call, so that the
/// next call does not go to the same server.
const PROMPT: Duration = Duration::from_millis(20);

/// By server, how many publishes are overdue there.
#[derive(Debug, Default)]
pub(super) struct OverdueServers(Mutex<HashMap<Arc<str>, usize>>);

/// A publish that is overdue, until it is dropped.
struct Overdue<'a> {
    servers: &'a OverdueServers,
    server: Arc<str>,
}

impl OverdueServers {
    /// Waits for a publish to end. `server` names the one that it went to, if it is overdue.
    pub(super) async fn watch<T>(
        &self,
        publish: impl Future<Output = T>,
        server: impl FnOnce() -> Option<Arc<str>>,
    ) -> T {
        let mut publish = pin!(publish);
        if let Ok(published) = timeout(PROMPT, &mut publish).await {
            return published;
        }
        let _overdue = server().map(|server| self.begin(server));
        publish.await
    }

    fn begin(&self, server: Arc<str>) -> Overdue<'_> {
        *self.lock().entry(Arc::clone(&server)).or_default() += 1;
        Overdue {
            servers: self,
            server,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn contains(&self, server: &str) -> bool {
        self.lock().contains_key(server)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Overdue<'_> {
    fn drop(&mut self) {
        let mut servers = self.servers.lock();
        if let Some(count) = servers.get_mut(&self.server) {
            *count -= 1;
            if *count == 0 {
                servers.remove(&self.server);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_is_left_out_while_a_publish_is_overdue_and_no_longer() {
        let servers = OverdueServers::default();
        let publish = async |lasts: Duration| {
            let name = || Some("a:1".into());
            servers.watch(sleep(lasts), name).await;
        };
        publish(PROMPT / 2).await;
        assert!(servers.is_empty());
        let looks = async {
            sleep(PROMPT * 3 / 2).await;
            assert!(servers.contains("a:1") && !servers.contains("b:1"));
            sleep(PROMPT).await;
            assert!(servers.contains("a:1"), "the longer one has not ended");
        };
        tokio::join!(publish(PROMPT * 2), publish(PROMPT * 3), looks);
        assert!(servers.is_empty());
    }
}
