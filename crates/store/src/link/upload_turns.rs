//! Uploads to a server take turns, so that the bytes in flight on the connection for large transfers are bounded.
//!
//! The time limit of a call begins when it is sent. Without turns, an upload that is sent behind many others on a slow
//! link would exceed the limit although the link works, and its outcome would be unknown. An upload that gets no turn
//! has sent nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::StoreError;

/// Maximum size of the uploads in flight to a server. A link of 1.4 MB/s transfers it within the default command
/// timeout (3 s). A larger upload is sent alone.
const IN_FLIGHT_KIB_MAX: u32 = 4 * 1024;
/// The longest wait for a turn. With the default command timeout it is less than the default limit of a request (30 s).
const TURN_WAIT_MAX: Duration = Duration::from_secs(25);

/// The turns of the uploads to one server, first come, first served.
pub(super) struct UploadTurns(Arc<Semaphore>);

/// Permission to send an upload, until it is dropped.
pub(crate) struct UploadTurn {
    _permit: OwnedSemaphorePermit,
}

impl Default for UploadTurns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(IN_FLIGHT_KIB_MAX as usize)))
    }
}

impl UploadTurns {
    /// Waits until an upload of this size may be sent.
    ///
    /// # Errors
    /// Other uploads took [`TURN_WAIT_MAX`]. Nothing was sent.
    pub(super) async fn wait(&self, bytes: usize) -> Result<UploadTurn, StoreError> {
        self.wait_for(bytes, TURN_WAIT_MAX).await
    }

    async fn wait_for(&self, bytes: usize, limit: Duration) -> Result<UploadTurn, StoreError> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let turn = Arc::clone(&self.0).acquire_many_owned(kib.min(IN_FLIGHT_KIB_MAX));
        match timeout(limit, turn).await {
            Ok(Ok(permit)) => Ok(UploadTurn { _permit: permit }),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(StoreError::uploads_waiting(limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn the_bytes_in_flight_are_bounded_and_a_larger_upload_is_sent_alone() {
        let turns = UploadTurns::default();
        let large = turns.wait(100 * MIB).await.unwrap();
        assert!(turns.wait(1).now_or_never().is_none());
        drop(large);
        let small: Vec<_> = std::iter::from_fn(|| turns.wait(MIB).now_or_never()).collect();
        assert_eq!(small.len(), 4);
    }

    #[tokio::test]
    async fn an_upload_without_a_turn_is_refused_and_nothing_is_sent() {
        let turns = UploadTurns::default();
        let _large = turns.wait(100 * MIB).await.unwrap();
        let limit = Duration::from_millis(10);
        let Err(error) = turns.wait_for(MIB, limit).await else {
            panic!("two uploads have a turn");
        };
        assert!(error.is_refusal() && error.is_upload_limit(), "{error}");
    }
}
