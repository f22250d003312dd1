//! What a service manager is told, if there is one: `sd_notify(3)`. Without the variable NOTIFY_SOCKET
//! nothing here does anything.

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

/// The process does its work, for the first time or again after [`reloading`].
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The process reads its settings again. [`ready`] must follow.
pub fn reloading() {
    // With the time systemd knows which reload it is; without a clock it cannot be told.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// The process is about to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
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
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
