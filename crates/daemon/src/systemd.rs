//! State notifications to a service manager: `sd_notify(3)`. Without the variable NOTIFY_SOCKET all functions
//! do nothing.
//!
//! A send blocks while the socket of the service manager is full, and it holds about ten messages. So a
//! separate thread sends them: neither requests nor a stop wait for a service manager that does not read.

use std::env;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

/// The most states that wait to be sent. A start, a reload and a stop send one or two each.
const WAITING_MAX: usize = 64;
/// Longest time that a stop waits for its message to be sent.
const STOPPING_LIMIT: Duration = Duration::from_millis(100);

/// States that are sent in one datagram, and a sender that is dropped when they are sent.
type NotifyMessage = (Vec<NotifyState<'static>>, SyncSender<()>);

/// `None` without a service manager.
static MESSAGES: OnceLock<Option<SyncSender<NotifyMessage>>> = OnceLock::new();

/// Reports that the process is ready, at the start or after [`reloading`].
pub fn ready() {
    drop(notify(vec![NotifyState::Ready]));
}

/// Reports that the process is reloading its settings. [`ready`] must follow.
pub fn reloading() {
    // systemd matches the reload by this timestamp, so without a clock nothing is sent.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        drop(notify(vec![NotifyState::Reloading, now]));
    }
}

/// Reports that the process is stopping. Blocks until this is sent, for at most [`STOPPING_LIMIT`].
pub(crate) fn stopping() {
    let sent = notify(vec![NotifyState::Stopping]);
    let _ = sent.recv_timeout(STOPPING_LIMIT);
}

/// Sends watchdog messages, twice per watchdog interval: the service manager restarts a process whose tasks
/// are stuck. One at most waits to be sent. Returns immediately if the watchdog is off, otherwise never.
pub async fn keep_alive() {
    let limit = sd_notify::watchdog_enabled().unwrap_or_default();
    let pause = limit / 2;
    if pause.is_zero() {
        return;
    }
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (_, mut sent) = sync_channel(0);
    loop {
        ticks.tick().await;
        if sent.try_recv() == Err(TryRecvError::Disconnected) {
            sent = notify(vec![NotifyState::Watchdog]);
        }
    }
}

/// Queues states behind the earlier ones. The receiver is disconnected when they are sent, or dropped.
fn notify(states: Vec<NotifyState<'static>>) -> Receiver<()> {
    let (sender, sent) = sync_channel(0);
    if let Some(messages) = messages()
        && messages.try_send((states, sender)).is_err()
    {
        tracing::warn!("the service manager does not read NOTIFY_SOCKET: dropped a state");
    }
    sent
}

/// Returns the queue. The first call starts the thread.
fn messages() -> Option<&'static SyncSender<NotifyMessage>> {
    let started = MESSAGES.get_or_init(|| {
        env::var_os("NOTIFY_SOCKET")?;
        let (messages, queued) = sync_channel::<NotifyMessage>(WAITING_MAX);
        let thread = thread::Builder::new().name("notify".to_owned());
        let started = thread.spawn(move || {
            for (states, _sender) in queued {
                let _ = sd_notify::notify(&states).inspect_err(log_failure);
            }
        });
        started.inspect_err(log_failure).ok()?;
        Some(messages)
    });
    started.as_ref()
}

fn log_failure(error: &std::io::Error) {
    tracing::warn!(%error, "failed to send a state to the service manager; check NOTIFY_SOCKET");
}
