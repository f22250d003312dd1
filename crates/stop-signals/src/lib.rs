//! Signals that request a stop, for daemons and commands.
//!
//! GNU `timeout`, npm, foreman and terminals send the same signal to a process and to its process group, so that it
//! arrives twice. A program that takes the second one for a request to end at once loses its graceful stop.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;

/// The signals that stop a daemon. SIGHUP makes it reload its settings.
pub const OF_DAEMONS: &[i32] = &[SIGTERM, SIGINT];
/// The signals that stop a command. SIGHUP: the terminal is closed.
pub const OF_COMMANDS: &[i32] = &[SIGTERM, SIGINT, SIGHUP];

/// Signals that arrive within this time of the first signal of a request belong to that request.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Handles these signals from now on: they do not end the process. `on_request` is called with the name of the first
/// signal of each request to stop, on a thread that ends with the process.
///
/// # Errors
/// The signal handlers or the thread cannot be set up.
pub fn on_stop_requests(
    signals: &[i32],
    mut on_request: impl FnMut(&'static str) + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    let handle = move || {
        let mut request_began_at: Option<Instant> = None;
        for signal in signals.forever() {
            let began_at = Instant::now();
            if request_began_at.is_none_or(|last| began_at - last >= SAME_REQUEST) {
                request_began_at = Some(began_at);
                on_request(signal_name(signal).unwrap_or("signal"));
            }
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(handle).map(drop)
}
