//! The signals that end commands that run on.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::CommandFailure;

/// SIGTERM, SIGINT (Ctrl-C), and SIGHUP: the terminal is closed. While this exists they do not end the process.
#[derive(Debug)]
pub(crate) struct CommandSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl CommandSignals {
    /// Handles the signals from now on.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(crate) fn new() -> Result<Self, CommandFailure> {
        let failed = |error: io::Error| {
            CommandFailure::NotDone(format!("failed to listen for signals: {error}"))
        };
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            hang_up: signal(SignalKind::hangup()).map_err(failed)?,
        })
    }

    /// Completes when the next signal arrives.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// Completes when one of the signals arrives.
///
/// # Errors
/// As for [`CommandSignals::new`].
pub(crate) fn stopped() -> Result<impl Future<Output = ()> + Send + 'static, CommandFailure> {
    let mut signals = CommandSignals::new()?;
    Ok(async move { signals.next().await })
}
