//! Turns Ctrl-C, SIGTERM and SIGHUP into a flag that waiting loops poll.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use tidegate_stop_signals::{OF_COMMANDS, on_stop_requests};

use crate::ending::CommandError;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Whether the process should stop, because of a signal.
#[derive(Debug)]
pub struct StopRequests {
    requested: Arc<AtomicBool>,
}

impl StopRequests {
    /// Handles the signals from now on: they do not end the process.
    ///
    /// # Errors
    /// The system does not allow it.
    pub fn install() -> io::Result<Self> {
        let requested = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&requested);
        on_stop_requests(OF_COMMANDS, move |_| flag.store(true, Ordering::Relaxed))?;
        Ok(Self { requested })
    }

    /// Whether a stop was requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Clears the request, so that a second one can be detected.
    pub fn clear(&self) {
        self.requested.store(false, Ordering::Relaxed);
    }

    /// Fails if a stop was requested.
    ///
    /// # Errors
    /// [`CommandError::Interrupted`].
    pub fn check_not_requested(&self) -> Result<(), CommandError> {
        if self.is_requested() {
            Err(CommandError::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Sleeps for one polling interval.
    pub fn pause(&self) {
        sleep(POLL_INTERVAL);
    }
}
