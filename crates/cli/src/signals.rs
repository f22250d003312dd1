//! The signals that end commands that run on.

use tidegate_stop_signals::{OF_COMMANDS, on_stop_requests};
use tokio::sync::mpsc::{Receiver, channel};

use crate::failure::CommandFailure;

/// More requests than any command distinguishes.
const REQUESTS_MAX: usize = 8;

/// Requests to stop: SIGTERM, SIGINT (Ctrl-C), and SIGHUP.
#[derive(Debug)]
pub(crate) struct CommandSignals(Receiver<()>);

impl CommandSignals {
    /// Handles the signals from now on: they do not end the process.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(crate) fn new() -> Result<Self, CommandFailure> {
        let (sender, requests) = channel(REQUESTS_MAX);
        let on_request = move |_: &str| {
            // The command may have ended just now.
            let _ = sender.try_send(());
        };
        on_stop_requests(OF_COMMANDS, on_request).map_err(|error| {
            CommandFailure::NotDone(format!("failed to listen for signals: {error}"))
        })?;
        Ok(Self(requests))
    }

    /// Completes when the next request arrives.
    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
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
