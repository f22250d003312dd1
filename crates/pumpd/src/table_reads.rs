//! Reads of tables that may be on other servers than the buckets: the definitions of schedules, and the policies.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::StoreError;
use tokio::time::{Instant, timeout};

/// The longest time for a read.
const READ_MAX: Duration = Duration::from_secs(1);
/// After a read has failed, the next one of the same server begins after this pause.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// Limits reads of tables whose server does not answer. The runs of buckets that need such a table would occupy all
/// runs of servers that do answer: so one read at a time waits for a server, and the others fail at once.
#[derive(Debug, Default)]
pub(crate) struct TableReads {
    /// The servers of which the last read failed, and when the next one may begin.
    failed: Mutex<HashMap<String, Instant>>,
}

impl TableReads {
    /// Reads a table of a server, for at most 1 s.
    ///
    /// # Errors
    /// The errors of `read`; or there is no answer in time, or there was none to a read a moment ago.
    pub(crate) async fn read<T>(
        &self,
        server: &str,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if !self.may_begin(server) {
            return Err(StoreError::timed_out(READ_MAX));
        }
        let read = timeout(READ_MAX, read).await;
        let read = read.unwrap_or_else(|_| Err(StoreError::timed_out(READ_MAX)));
        let mut failed = self.failed.lock();
        match &read {
            Err(error) if error.reason().is_some() => {
                failed.insert(server.to_owned(), Instant::now() + FAILED_PAUSE);
            }
            // A damaged table is an answer: the tables of other namespaces are read.
            _ => drop(failed.remove(server)),
        }
        read
    }

    fn may_begin(&self, server: &str) -> bool {
        let (mut failed, now) = (self.failed.lock(), Instant::now());
        match failed.get_mut(server) {
            None => true,
            Some(begins_at) if *begins_at <= now => {
                *begins_at = now + READ_MAX + FAILED_PAUSE;
                true
            }
            Some(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::sleep;

    use super::*;

    #[tokio::test]
    async fn one_read_at_a_time_waits_for_a_server_that_does_not_answer() {
        let reads = TableReads::default();
        let begin = Instant::now();
        let silent = || reads.read("a", pending::<Result<(), _>>());
        let answered = |server| reads.read(server, ready(Ok(())));
        assert!(silent().await.is_err());
        assert!(begin.elapsed() >= READ_MAX);
        // Others fail at once, even if the server would answer. Tables of other servers are read.
        assert!(answered("a").await.is_err() && answered("b").await.is_ok());
        sleep(FAILED_PAUSE).await;
        let (waiting, other) = tokio::join!(silent(), answered("a"));
        assert!(waiting.is_err() && other.is_err());
        assert!(begin.elapsed() >= 2 * READ_MAX + FAILED_PAUSE);
        sleep(FAILED_PAUSE).await;
        for _ in 0..2 {
            assert!(answered("a").await.is_ok());
        }
    }
}
