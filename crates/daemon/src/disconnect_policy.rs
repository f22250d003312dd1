//! End of a client's sending half (FIN) while its request is being answered.
//!
//! The kernel reports the same event for a client that has left and for a client that only closed its sending half
//! (`shutdown`, as `nc` does at the end of its input). The request of the first must be dropped, above all it must
//! get no job; the second is waiting for its answer. Timing tells them apart: the second closes its half right after
//! its request, while a person or a timeout takes longer. So an early end is hidden from hyper, which would drop the
//! request, until the answer is written. There are two bounds: [`HELD_MAX`], and [`DisconnectPolicy::cancel_on_disconnect`], by which
//! a handler ends this protection before a long wait.

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::Instant;

/// An end of input within this time of the last byte of a request counts as a half-close.
const EARLY: Duration = Duration::from_millis(100);
/// Longest time for which a request continues although its client may have left.
pub(crate) const HELD_MAX: Duration = Duration::from_secs(3);

/// Decides whether an end of input cancels the request in progress. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct DisconnectPolicy(Arc<DisconnectState>);

#[derive(Debug, Default)]
struct DisconnectState {
    /// Arrival time of the last bytes of the request in progress. `None` if an end of input takes effect
    /// immediately.
    received_at: Mutex<Option<Instant>>,
    task: AtomicWaker,
}

impl DisconnectPolicy {
    /// From now on an end of input cancels the request. Call this before a long wait.
    pub fn cancel_on_disconnect(&self) {
        *self.0.received_at.lock() = None;
        self.0.task.wake();
    }

    /// The header of a request is complete.
    pub(crate) fn request_began(&self) {
        *self.0.received_at.lock() = Some(Instant::now());
    }

    /// Bytes have arrived; they belong to the request in progress, if there is one.
    pub(crate) fn received(&self) {
        let mut received_at = self.0.received_at.lock();
        if received_at.is_some() {
            *received_at = Some(Instant::now());
        }
    }

    /// The connection is waiting for its next request.
    pub(crate) fn request_ended(&self) {
        *self.0.received_at.lock() = None;
    }

    /// Whether an end of input at `ended_at` must be hidden from the request in progress. Wakes the task when
    /// [`Self::cancel_on_disconnect`] changes the result.
    pub(crate) fn hides_disconnect(&self, ended_at: Instant, context: &Context<'_>) -> bool {
        self.0.task.register(context.waker());
        let received_at = *self.0.received_at.lock();
        received_at.is_some_and(|received_at| ended_at.duration_since(received_at) <= EARLY)
    }
}
