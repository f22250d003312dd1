//! Signals that stop the process, and one that must not end it.

use std::io;
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::own_runtime::spawn_thread;
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
    /// Cancelled when the graceful stop begins: together with `asked`, or after the drain delay, in which load
    /// balancers notice.
    pub drain_begun: CancellationToken,
}

/// Handles SIGTERM and SIGINT. The first signal cancels [`StopTokens::requested`] and, `drain_delay` later,
/// [`StopTokens::drain_begun`]; a second signal ends the delay. A further signal after that exits the process immediately,
/// with status 1.
///
/// Runs on a thread with its own runtime, so that it works however busy the runtime of the caller is.
///
/// # Errors
/// The signal handlers or the thread cannot be set up.
pub fn stop_on_signals(drain_delay: Duration) -> io::Result<StopTokens> {
    let stop = StopTokens::default();
    let watched = stop.clone();
    let begin = move |_: &Handle| {
        let mut signals = StopSignals::new()?;
        let watch = async move {
            run_stop_sequence(&mut signals, &watched, drain_delay).await;
            let signal = signals.next().await;
            tracing::warn!(
                signal,
                "ending at once: received another signal during the stop"
            );
            #[expect(clippy::disallowed_methods, reason = "a separate thread")]
            thread::sleep(LAST_LINES);
            std::process::exit(1);
        };
        Ok(((), watch))
    };
    spawn_thread("signals", begin)?;
    Ok(stop)
}

async fn run_stop_sequence(signals: &mut StopSignals, stop: &StopTokens, drain_delay: Duration) {
    let signal = signals.next().await;
    stop.requested.cancel();
    // Blocks for up to 100 ms. Signals that arrive meanwhile are kept.
    systemd::stopping();
    if drain_delay.is_zero() {
        tracing::info!(signal, "stopping");
    } else {
        tracing::info!(signal, ?drain_delay, "stopping after a delay");
        let _ = timeout(drain_delay, signals.next()).await;
        tracing::info!("stopping");
    }
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
