//! Reads a small table in Redis again and again, to keep what this process knows of it current.

use std::time::Duration;

use tidegate_store::StoreError;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::metrics::storage_failure::record_store_error;

/// The interval at which a table is read.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// When a table is read: once a second, and on request.
#[derive(Debug, Default)]
pub(crate) struct TableReader {
    requested: Notify,
}

impl TableReader {
    /// Requests a read of the table, because it may have changed.
    pub(crate) fn request(&self) {
        self.requested.notify_one();
    }

    /// Waits until the table is to be read again: for a second, or until a read is requested. After a failed read,
    /// which is logged, it waits a second, however many reads are requested: requests may be the consequence of
    /// failures.
    pub(crate) async fn wait(&self, last_read: Result<(), StoreError>) {
        if let Err(error) = last_read {
            record_store_error(&error);
            sleep(READ_INTERVAL).await;
        }
        tokio::select! {
            () = self.requested.notified() => {}
            () = sleep(READ_INTERVAL) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_table_is_read_once_a_second_and_on_request() {
        let reader = TableReader::default();
        let began_at = Instant::now();
        reader.wait(Ok(())).await;
        assert_eq!(began_at.elapsed(), READ_INTERVAL);
        reader.request();
        reader.wait(Ok(())).await;
        assert_eq!(began_at.elapsed(), READ_INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_do_not_shorten_the_pause_after_a_failed_read() {
        let reader = TableReader::default();
        let began_at = Instant::now();
        reader.request();
        let failed = Err(StoreError::timed_out(Duration::from_secs(3)));
        reader.wait(failed).await;
        assert_eq!(began_at.elapsed(), READ_INTERVAL);
    }
}
