//! What a service manager is told, if there is one: `sd_notify(3)`. Without the variable NOTIFY_SOCKET
//! nothing here does anything.
//!
//! A message waits until the service manager has room for it, and its socket has room for some ten. So a thread
//! sends them: nothing that serves or stops waits for a service manager that does not read.

mod queue;

use std::env;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

use queue::{Message, Queue};

/// What a stop waits for its message to be sent, unless the service manager does not read.
const STOPPING_LIMIT: Duration = Duration::from_millis(100);

/// `None` if there is no service manager.
static MESSAGES: OnceLock<Option<Arc<Queue>>> = OnceLock::new();

/// The process does its work, for the first time or again after [`reloading`].
pub fn ready() {
    tell(vec![NotifyState::Ready]);
}

/// The process reads its settings again. [`ready`] must follow.
pub fn reloading() {
    // With the time systemd knows which reload it is; without a clock it cannot be told.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(vec![NotifyState::Reloading, now]);
    }
}

/// The process is about to end. Blocks until this is sent, for [`STOPPING_LIMIT`] at most.
pub(crate) fn stopping() {
    tell(vec![NotifyState::Stopping]);
    if let Some(messages) = messages() {
        messages.wait_until_sent(STOPPING_LIMIT);
    }
}

/// Gives signs of life for ever, twice as often as the service manager wants them: a process whose tasks
/// are stuck is restarted.
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
        tell(vec![NotifyState::Watchdog]);
    }
}

fn tell(message: Message) {
    if let Some(messages) = messages()
        && !messages.push(message)
    {
        tracing::warn!("the service manager does not read NOTIFY_SOCKET: an old state is dropped");
    }
}

/// Starts the thread at the first message.
fn messages() -> Option<&'static Arc<Queue>> {
    let started = MESSAGES.get_or_init(|| {
        env::var_os("NOTIFY_SOCKET")?;
        let queue = Arc::new(Queue::default());
        let sending = Arc::clone(&queue);
        let thread = thread::Builder::new().name("notify".to_owned());
        let started = thread.spawn(move || sending.send_each(send));
        started.inspect_err(failed).ok()?;
        Some(queue)
    });
    started.as_ref()
}

fn send(message: &Message) {
    let _ = sd_notify::notify(message).inspect_err(failed);
}

fn failed(error: &std::io::Error) {
    tracing::warn!(%error, "failed to send a state to the service manager; check NOTIFY_SOCKET");
}
