//! The end of a process, when somebody asks for it.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::systemd;

/// Told when the process is to end, in two steps. Whoever has work to wind up is passed a clone of one of
/// the tokens.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Somebody has asked: from now on the process is not ready, and what has not begun need not begin.
    pub asked: CancellationToken,
    /// To be wound up now. Comes with the first, or so much later that balancers have noticed.
    pub begun: CancellationToken,
}

/// Watches for the first SIGTERM or SIGINT. Between it and the winding up there is `drain_delay`, which a
/// second signal ends.
///
/// # Errors
/// The signal handlers cannot be set up.
pub fn stop_on_signals(drain_delay: Duration) -> io::Result<Stop> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = Stop::default();
    let told = stop.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let name = next().await;
        told.asked.cancel();
        systemd::stopping();
        if drain_delay.is_zero() {
            tracing::info!(signal = name, "stopping");
        } else {
            tracing::info!(signal = name, ?drain_delay, "stopping after a delay");
            let _ = tokio::time::timeout(drain_delay, next()).await;
            tracing::info!("stopping");
        }
        told.begun.cancel();
    });
    Ok(stop)
}
