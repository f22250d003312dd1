//! Signals: those that ask for the end of the process, and one that must not end it.

use std::io;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::systemd;

/// For the last lines of the log, before a process ends without winding up.
const LAST_LINES: Duration = Duration::from_millis(100);

/// Says when the process is to end, in two steps. Work that is to be wound up has a clone of one of the tokens.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// A stop was requested: from now on the process is not ready, and what has not begun need not begin.
    pub asked: CancellationToken,
    /// To be wound up now. Comes with the first, or so much later that balancers have noticed.
    pub begun: CancellationToken,
}

/// Watches for SIGTERM and SIGINT. Between the first and the winding up there is `drain_delay`, which a second
/// signal ends. A second signal that comes later, or a third, ends the process at once, with status 1.
///
/// A thread with a small runtime does this: it works however busy the runtime of the caller is.
///
/// # Errors
/// The signal handlers cannot be set up.
pub fn stop_on_signals(drain_delay: Duration) -> io::Result<Stop> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        StopSignals::new()?
    };
    let stop = Stop::default();
    let watched = stop.clone();
    let watch = async move {
        wind_up(&mut signals, &watched, drain_delay).await;
        let signal = signals.next().await;
        tracing::warn!(signal, "ending at once: another signal during the stop");
        thread::sleep(LAST_LINES);
        std::process::exit(1);
    };
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || runtime.block_on(watch))?;
    Ok(stop)
}

async fn wind_up(signals: &mut StopSignals, stop: &Stop, drain_delay: Duration) {
    let signal = signals.next().await;
    stop.asked.cancel();
    // Blocks for a moment. Signals that come meanwhile are kept.
    systemd::stopping();
    if drain_delay.is_zero() {
        tracing::info!(signal, "stopping");
    } else {
        tracing::info!(signal, ?drain_delay, "stopping after a delay");
        let _ = timeout(drain_delay, signals.next()).await;
        tracing::info!("stopping");
    }
    stop.begun.cancel();
}

/// From now on a write beyond the limit on the size of files fails, and its signal, SIGXFSZ, does not end the
/// process. To be called inside a runtime.
///
/// # Errors
/// The signal handler cannot be set up.
pub fn ignore_file_size_signal() -> io::Result<()> {
    let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays when this is dropped.
    signal(kind).map(drop)
}

struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
