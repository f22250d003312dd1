//! Polls a future inside a certain runtime, whichever runtime the caller belongs to.

use std::future::poll_fn;
use std::pin::pin;

use tokio::runtime::Handle;

/// Awaits `calling`, with its sockets, timers and tasks in `runtime`. The client library makes the socket, timers and
/// tasks of a connection in the runtime of the call that needs it. That one may be busy, or end.
pub(super) async fn in_runtime<F: Future>(runtime: &Handle, calling: F) -> F::Output {
    let mut calling = pin!(calling);
    let polled = poll_fn(|context| {
        let _inside = runtime.enter();
        calling.as_mut().poll(context)
    });
    polled.await
}
