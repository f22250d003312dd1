//! Ctrl-C and its relatives become a question that the waiting loops ask.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::Ending;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Signals {
    asked: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self { asked })
    }

    /// Whether somebody asked to end.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Forgets what was asked, so that a second request can be told from the first.
    pub(crate) fn forget(&self) {
        self.asked.store(false, Ordering::Relaxed);
    }

    /// Ends the current step if somebody asked to.
    pub(crate) fn check(&self) -> Result<(), Ending> {
        if self.asked() {
            Err(Ending::Asked)
        } else {
            Ok(())
        }
    }

    /// Waits for the length of one look around.
    pub(crate) fn pause(&self) {
        sleep(POLL_INTERVAL);
    }
}
