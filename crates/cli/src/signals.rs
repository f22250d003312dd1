//! The signals that end commands that run on.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::CommandFailure;

/// Completes on SIGTERM, SIGINT (Ctrl-C), or SIGHUP: the terminal is closed. From the call on these signals do not end the process.
///
/// # Errors
/// The system does not allow it.
pub(crate) fn stopped() -> Result<impl Future<Output = ()> + Send + 'static, CommandFailure> {
    let failed = |error: io::Error| {
        CommandFailure::NotDone(format!("failed to listen for signals: {error}"))
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
        }
    })
}
