//! Parsing and writing of large JSON, outside of the runtime threads.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// JSON up to this length, in bytes, is parsed and written in the task of its request. Each MiB takes milliseconds,
/// during which the runtime thread serves no other request.
pub(crate) const INLINE_BYTES: usize = 256 * 1024;

/// The work panicked, or the runtime shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs `work` on `bytes` bytes: inline up to [`INLINE_BYTES`], else on a thread for blocking work. `permits` bounds
/// the concurrent work, so that processors are left for other requests; it must not be closed. If the future is dropped
/// after the work has begun, the work is completed with its permit, and its result dropped.
///
/// # Errors
/// The work panicked, or the runtime shuts down.
pub(crate) async fn off_runtime<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Panicked> {
    if bytes <= INLINE_BYTES {
        return Ok(work());
    }
    let permit = Arc::clone(permits).acquire_owned().await;
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    done.await.map_err(|_| Panicked)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::thread;

    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn work_keeps_its_permit_if_its_caller_leaves() {
        let permits = Arc::new(Semaphore::new(1));
        let (sender, received) = tokio::sync::oneshot::channel::<()>();
        {
            let work = move || received.blocking_recv();
            let mut working = pin!(off_runtime(&permits, INLINE_BYTES + 1, work));
            assert!(poll!(&mut working).is_pending());
        }
        assert_eq!(permits.available_permits(), 0);
        sender.send(()).unwrap();
        let _ = permits.acquire().await.unwrap();
    }

    #[tokio::test]
    async fn large_work_does_not_run_on_a_runtime_thread() {
        let permits = Arc::new(Semaphore::new(1));
        for (bytes, is_inline) in [(INLINE_BYTES, true), (INLINE_BYTES + 1, false)] {
            // The only thread of this runtime is the one of the test.
            let own = thread::current().id();
            let used = off_runtime(&permits, bytes, || thread::current().id()).await;
            assert_eq!(used == Ok(own), is_inline, "{bytes}");
        }
    }
}
