//! Signals that stop the process, and a signal that must not end it.

use std::io;
use std::thread;
use std::time::Duration;

use tidegate_stop_signals::{OF_DAEMONS, on_stop_requests};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::systemd;

/// Time for the last log lines before the process exits without a graceful stop.
const LAST_LINES: Duration = Duration::from_millis(100);

/// Tokens that are cancelled when the process stops, in two steps. Each task that takes part in the stop has a
/// clone of one of them.
#[derive(Debug, Clone, Default)]
pub struct StopTokens {
    /// Cancelled when a stop is requested: from now on the process is not ready, and work that has not begun
    /// may be skipped.
    pub requested: CancellationToken,
    /// Cancelled when the graceful stop begins: together with `requested`, or after the drain delay, in which load
    /// balancers notice.
    pub drain_begun: CancellationToken,
}

/// Handles SIGTERM and SIGINT. The first request to stop cancels [`StopTokens::requested`] and, `drain_delay` later,
/// [`StopTokens::drain_begun`]; a second request ends the delay. A further request after that exits the process
/// immediately, with status 1. Signals within a second are one request.
///
/// Runs on a separate thread, so that it works however busy the runtime of the caller is.
///
/// # Errors
/// The signal handlers or the thread cannot be set up.
pub fn stop_on_signals(drain_delay: Duration) -> io::Result<StopTokens> {
    let stop = StopTokens::default();
    let watched = stop.clone();
    on_stop_requests(OF_DAEMONS, move |signal| {
        if !watched.requested.is_cancelled() {
            request_stop(signal, &watched, drain_delay);
        } else if !watched.drain_begun.is_cancelled() {
            begin_drain(&watched);
        } else {
            tracing::warn!(
                signal,
                "ending at once: received another signal during the stop"
            );
            #[expect(clippy::disallowed_methods, reason = "a separate thread")]
            thread::sleep(LAST_LINES);
            std::process::exit(1);
        }
    })?;
    Ok(stop)
}

fn request_stop(signal: &str, stop: &StopTokens, drain_delay: Duration) {
    stop.requested.cancel();
    // Blocks for up to 100 ms. Signals that arrive meanwhile are kept.
    systemd::stopping();
    if drain_delay.is_zero() {
        tracing::info!(signal, "stopping");
        stop.drain_begun.cancel();
        return;
    }
    tracing::info!(signal, ?drain_delay, "stopping after a delay");
    let delayed = stop.clone();
    let wait = move || {
        #[expect(clippy::disallowed_methods, reason = "a separate thread")]
        thread::sleep(drain_delay);
        if !delayed.drain_begun.is_cancelled() {
            begin_drain(&delayed);
        }
    };
    let thread = thread::Builder::new().name("drain-delay".to_owned());
    if let Err(error) = thread.spawn(wait) {
        tracing::warn!("failed to start a thread for the drain delay: {error}; stopping now");
        begin_drain(stop);
    }
}

fn begin_drain(stop: &StopTokens) {
    tracing::info!("stopping");
    stop.drain_begun.cancel();
}

/// Installs a handler for SIGXFSZ: a write beyond the file size limit then fails instead of ending the
/// process. Call it inside a tokio runtime.
///
/// # Errors
/// The signal handler cannot be set up.
pub fn ignore_file_size_signal() -> io::Result<()> {
    let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays when this is dropped.
    signal(kind).map(drop)
}
