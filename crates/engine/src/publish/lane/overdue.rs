//! Servers with an overdue publish. Publishes to queues with several lanes avoid them until it has ended.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

/// The time after which a publish is overdue. It is less than the time after which a batch queue continues without a
/// call, so that the next call goes to another server.
const PROMPT: Duration = Duration::from_millis(20);

/// The number of overdue publishes, by server.
#[derive(Debug, Default)]
pub(super) struct OverdueServers(Mutex<HashMap<Arc<str>, usize>>);

/// Counts an overdue publish until it is dropped.
struct Overdue<'a> {
    servers: &'a OverdueServers,
    server: Arc<str>,
}

impl OverdueServers {
    /// Awaits a publish, and counts it while it is overdue. `server` returns the server that it was sent to, if known.
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
        *self.0.lock().entry(Arc::clone(&server)).or_default() += 1;
        Overdue {
            servers: self,
            server,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    pub(super) fn contains(&self, server: &str) -> bool {
        self.0.lock().contains_key(server)
    }
}

impl Drop for Overdue<'_> {
    fn drop(&mut self) {
        let mut servers = self.servers.0.lock();
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
    async fn a_server_is_listed_only_while_a_publish_is_overdue() {
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
