//! Work that goes on when its caller is dropped: a request ends with its client.

use std::panic::resume_unwind;

use tracing::Instrument;

/// Runs a future in a task of its own, to its end also if the caller is dropped. `None` if the runtime ends before.
///
/// # Panics
/// If the future does.
pub async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    match tokio::spawn(work.in_current_span()).await {
        Ok(done) => Some(done),
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => None,
        },
    }
}
