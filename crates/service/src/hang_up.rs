//! The end of what a client sends, while its request is being answered.
//!
//! A client that has left and a client that has only closed its sending half (`shutdown`, as `nc` does at the end of
//! its input) look the same to the kernel. The first should cost nothing more, above all get no job; the second is
//! waiting for its answer. The difference is the moment: the second closes its half right behind its
//! request, while people and timeouts take longer. So an end that comes early is kept from hyper, which would drop
//! the request, until the answer is written. There are two bounds: [`HELD_MAX`], and a request that begins to wait
//! for something that may not come for a long time ends at once ([`HangUp::ends_request`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

/// From the last byte of a request to the end of what the client sends, if that has only closed its half.
const EARLY: Duration = Duration::from_millis(100);
/// The longest time for which a request goes on for a client that may have left.
pub(crate) const HELD_MAX: Duration = Duration::from_secs(3);

/// What the end of what a client sends means for the request that it has sent. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct HangUp(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// When the last bytes of the running request came; `None` if the end of the connection ends at once what there
    /// is.
    received_at: Mutex<Option<Instant>>,
    task: AtomicWaker,
}

impl HangUp {
    /// From now on the request ends with what the client sends: to be called before a long wait.
    pub fn ends_request(&self) {
        self.set(None);
        self.0.task.wake();
    }

    /// The header of a request is complete.
    pub(crate) fn request_began(&self) {
        self.set(Some(Instant::now()));
    }

    /// Bytes have come: more of the running request, if there is one.
    pub(crate) fn received(&self) {
        let mut received_at = self.lock();
        if received_at.is_some() {
            *received_at = Some(Instant::now());
        }
    }

    /// The connection waits for a request.
    pub(crate) fn request_ended(&self) {
        self.set(None);
    }

    /// Whether an end at that moment is to be kept from the running request. The task is woken when that changes.
    pub(crate) fn is_held(&self, ended_at: Instant, context: &Context<'_>) -> bool {
        self.0.task.register(context.waker());
        let received_at = *self.lock();
        received_at.is_some_and(|received_at| ended_at.duration_since(received_at) <= EARLY)
    }

    fn set(&self, received_at: Option<Instant>) {
        *self.lock() = received_at;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        let received_at = self.0.received_at.lock();
        received_at.unwrap_or_else(PoisonError::into_inner)
    }
}
