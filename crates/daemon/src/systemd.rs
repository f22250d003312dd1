//! State notifications to a service manager: `sd_notify(3)`. Without the variable NOTIFY_SOCKET all functions
//! do nothing.
//!
//! A send blocks while the socket of the service manager is full, and it holds about ten messages. So a
//! separate thread sends them: neither requests nor a stop wait for a service manager that does not read.

mod queue;

use std::env;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

use queue::{NotifyMessage, NotifyQueue};

/// Longest time that a stop waits for its message to be sent.
const STOPPING_LIMIT: Duration = Duration::from_millis(100);

/// `None` without a service manager.
static MESSAGES: OnceLock<Option<Arc<NotifyQueue>>> = OnceLock::new();

/// Reports that the process is ready, at the start or after [`reloading`].
pub fn ready() {
    notify(vec![NotifyState::Ready]);
}

/// Reports that the process is reloading its settings. [`ready`] must follow.
pub fn reloading() {
    // systemd matches the reload by this timestamp, so without a clock nothing is sent.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        notify(vec![NotifyState::Reloading, now]);
    }
}

/// Reports that the process is stopping. Blocks until this is sent, for at most [`STOPPING_LIMIT`].
pub(crate) fn stopping() {
    notify(vec![NotifyState::Stopping]);
    if let Some(messages) = messages() {
        messages.wait_until_sent(STOPPING_LIMIT);
    }
}

/// Sends watchdog messages, twice per watchdog interval: the service manager restarts a process whose tasks
/// are stuck. Returns immediately if the watchdog is off, otherwise never.
pub async fn keep_alive() {
    let limit = sd_notify::watchdog_enabled().unwrap_or_default();
    let pause = limit / 2;
    if pause.is_zero() {
        return;
    }
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        notify(vec![NotifyState::Watchdog]);
    }
}

fn notify(message: NotifyMessage) {
    if let Some(messages) = messages()
        && !messages.push(message)
    {
        tracing::warn!(
            "the service manager does not read NOTIFY_SOCKET: dropped the oldest queued state"
        );
    }
}

/// Returns the queue. The first call starts the thread.
fn messages() -> Option<&'static Arc<NotifyQueue>> {
    let started = MESSAGES.get_or_init(|| {
        env::var_os("NOTIFY_SOCKET")?;
        let queue = Arc::new(NotifyQueue::default());
        let sending = Arc::clone(&queue);
        let thread = thread::Builder::new().name("notify".to_owned());
        let started = thread.spawn(move || sending.send_each(send));
        started.inspect_err(log_failure).ok()?;
        Some(queue)
    });
    started.as_ref()
}

fn send(message: &NotifyMessage) {
    let _ = sd_notify::notify(message).inspect_err(log_failure);
}

fn log_failure(error: &std::io::Error) {
    tracing::warn!(%error, "failed to send a state to the service manager; check NOTIFY_SOCKET");
}
