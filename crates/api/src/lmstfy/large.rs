//! Work on large bodies.

use tokio::sync::Semaphore;

use super::error::Refusal;

/// JSON up to this length is read and written where its request is handled. It takes milliseconds for each MiB, in which
/// a thread of the runtime would serve no other request.
pub(super) const INLINE_BYTES: usize = 1024 * 1024;

/// Does work that takes as long as so many bytes: on a thread for blocking work if they are many. `permits` leaves
/// processors to others; it is never closed. A caller that goes away has the work done, and its result dropped.
pub(super) async fn off_runtime<T: Send + 'static>(
    permits: &Semaphore,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    if bytes <= INLINE_BYTES {
        return Ok(work());
    }
    let _permit = permits.acquire().await;
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Refusal::Internal)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn much_work_is_not_done_on_a_thread_of_the_runtime() {
        let permits = Semaphore::new(1);
        for (bytes, is_inline) in [(INLINE_BYTES, true), (INLINE_BYTES + 1, false)] {
            let mut working = pin!(off_runtime(&permits, bytes, || 7));
            // The only thread of this runtime is the one that polls.
            let at_once = poll!(&mut working);
            assert_eq!(at_once.is_ready(), is_inline, "{bytes}");
            if !is_inline {
                assert_eq!(working.await, Ok(7));
            }
        }
    }
}
