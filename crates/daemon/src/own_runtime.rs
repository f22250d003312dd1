//! Runtimes of one thread, and threads that have one.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for blocking work are kept for a century once they have begun. tokio panics when a runtime gets blocking
/// work, has no thread for it, and the system refuses one for the moment.
const BLOCKING_KEPT_FOR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Largest number of these threads. Since they are kept, it bounds the threads that remain after a burst. It is large,
/// as each look-up of a host name may take one for as long as name servers do not answer. The own work of this process
/// there is bounded otherwise.
const BLOCKING_THREADS_MAX: usize = 256;

/// Builds a runtime that runs its tasks on the thread that calls `block_on`. It has a thread for blocking work from the
/// beginning, so that such work waits for others of its kind, at worst, while the system has no resources for further
/// threads. `name` is the name of the runtime in the names of these threads.
///
/// # Errors
/// The system has no resources for it.
///
/// # Panics
/// The system has resources for a thread, and none for a second one a moment later.
pub fn new_runtime(name: &str) -> io::Result<Runtime> {
    // The runtime would panic instead of returning an error.
    let tried = thread::Builder::new().spawn(|| ())?;
    let _ = tried.join();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .thread_name(format!("block-{name}"))
        .thread_keep_alive(BLOCKING_KEPT_FOR)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    runtime.spawn_blocking(|| ());
    Ok(runtime)
}

/// Starts a thread that runs a future to its end, in a runtime of its own. `begin` makes the future there, and a value
/// for the caller.
///
/// # Errors
/// The system has no resources for it, or `begin` has failed.
pub(crate) fn spawn_thread<T, F>(
    name: &str,
    begin: impl FnOnce(&Handle) -> io::Result<(T, F)> + Send + 'static,
) -> io::Result<(T, JoinHandle<()>)>
where
    T: Send + 'static,
    F: Future<Output = ()>,
{
    let (sender, begun) = sync_channel(1);
    // The runtime is made on its thread: if that cannot be started, it would be dropped inside the runtime of the
    // caller, which panics.
    let own_name = name.to_owned();
    let run = move || {
        let made = new_runtime(&own_name).and_then(|runtime| {
            let inside = runtime.enter();
            let begun = begin(runtime.handle())?;
            drop(inside);
            Ok((runtime, begun))
        });
        match made {
            Ok((runtime, (value, future))) => {
                let _ = sender.send(Ok(value));
                runtime.block_on(future);
                // Tasks that are left are dropped; blocked threads are not awaited.
                runtime.shutdown_background();
            }
            Err(error) => drop(sender.send(Err(error))),
        }
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
    let begun = begun.recv();
    let value = begun.unwrap_or_else(|_| Err(io::Error::other("the thread has ended")))?;
    Ok((value, thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_cannot_begin_is_an_error() {
        let begin = |_: &Handle| -> io::Result<((), std::future::Ready<()>)> {
            Err(io::Error::other("no room"))
        };
        let error = spawn_thread("test", begin).unwrap_err();
        assert_eq!(error.to_string(), "no room");
    }

    #[tokio::test]
    async fn a_thread_runs_its_future_to_the_end() {
        let begin = |handle: &Handle| Ok((handle.clone(), tokio::task::yield_now()));
        let (_handle, thread) = spawn_thread("test", begin).unwrap();
        thread.join().unwrap();
    }
}
