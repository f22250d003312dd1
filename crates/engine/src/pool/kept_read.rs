//! A value that is read from Redis on request and used for a while.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_daemon::run_to_end;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A value that one reader at a time reads. The other readers wait for it. Clones share the value.
pub(crate) struct KeptRead<T>(Arc<Mutex<Option<Kept<T>>>>);

struct Kept<T> {
    value: T,
    valid_until: Instant,
}

impl<T> fmt::Debug for KeptRead<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KeptRead").finish_non_exhaustive()
    }
}

impl<T> Default for KeptRead<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone + Send + 'static> KeptRead<T> {
    /// The value of the last read while it is valid, else the value that `read` returns with the time for which it is
    /// valid. A read that has begun ends although its request ends with its client, so clients that leave cause no more
    /// reads. `None` if the runtime ends before.
    pub(crate) async fn get(
        &self,
        read: impl Future<Output = (T, Duration)> + Send + 'static,
    ) -> Option<T> {
        let kept = Arc::clone(&self.0);
        let reading = run_to_end(async move {
            let mut kept = kept.lock().await;
            if let Some(last) = kept.as_ref().filter(|it| Instant::now() < it.valid_until) {
                return last.value.clone();
            }
            let (value, valid_for) = read.await;
            *kept = Some(Kept {
                value: value.clone(),
                valid_until: Instant::now() + valid_for,
            });
            value
        });
        reading.await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::{sleep, timeout};

    use super::*;

    const VALID_FOR: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_value_is_read_once_until_it_is_old() {
        let (kept, reads) = (KeptRead::default(), Arc::new(AtomicU32::new(0)));
        let get = || {
            let reads = Arc::clone(&reads);
            kept.get(async move {
                sleep(Duration::from_secs(1)).await;
                (reads.fetch_add(1, Ordering::Relaxed), VALID_FOR)
            })
        };
        assert_eq!(tokio::join!(get(), get()), (Some(0), Some(0)));
        sleep(VALID_FOR - Duration::from_millis(10)).await;
        assert_eq!(get().await, Some(0));
        sleep(Duration::from_millis(10)).await;
        assert_eq!(get().await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_whose_request_has_left_is_finished() {
        let kept = KeptRead::default();
        let left = kept.get(async {
            sleep(Duration::from_secs(2)).await;
            (1, VALID_FOR)
        });
        assert!(timeout(Duration::from_secs(1), left).await.is_err());
        assert_eq!(kept.get(pending()).await, Some(1));
    }
}
