//! The threads that serve connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// Threads that serve connections, each with a runtime of its own. A connection stays on its thread, so that its state stays
/// in the cache of one processor, and threads neither take tasks from each other nor share locks for timers. The main thread
/// is the first of them.
#[derive(Debug)]
pub struct ServingThreads {
    runtimes: ServingRuntimes,
    stop: CancellationToken,
    further: Vec<JoinHandle<()>>,
}

/// The open files of a thread beside the main one: its poll, twice, its wake-up and its signals.
pub const OPEN_FILES_OF_A_THREAD: u64 = 4;

/// The runtimes of these threads. Connections are given to them in turn; by default there is only the main thread. Cheap to
/// clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServingRuntimes {
    /// Those beside that of the main thread.
    further: Arc<[Handle]>,
    next: Arc<AtomicUsize>,
}

impl ServingThreads {
    /// Starts `count` threads, the main one included.
    ///
    /// # Errors
    /// The system has no resources for a thread.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut runtimes = Vec::new();
        // If a thread does not start, dropping this ends those before it.
        let mut started = Self {
            runtimes: ServingRuntimes::default(),
            stop: CancellationToken::new(),
            further: Vec::new(),
        };
        for number in 1..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtimes.push(runtime.handle().clone());
            let stopped = started.stop.clone().cancelled_owned();
            let run = move || {
                runtime.block_on(stopped);
                // Tasks that are left are dropped; blocked threads are not awaited.
                runtime.shutdown_background();
            };
            let thread = thread::Builder::new().name(format!("serve-{number}"));
            started.further.push(thread.spawn(run)?);
        }
        started.runtimes.further = runtimes.into();
        Ok(started)
    }

    pub(crate) fn runtimes(&self) -> ServingRuntimes {
        self.runtimes.clone()
    }
}

/// Ends the threads, with all that they still serve.
impl Drop for ServingThreads {
    fn drop(&mut self) {
        self.stop.cancel();
        for thread in self.further.drain(..) {
            // It does not panic: panics of tasks are caught by their runtime.
            let _ = thread.join();
        }
    }
}

impl ServingRuntimes {
    /// Serves a connection on the next thread. Must be called inside the runtime of the main one.
    pub(crate) fn spawn<F>(&self, stream: TcpStream, serve: impl FnOnce(TcpStream) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % (self.further.len() + 1);
        let Some(runtime) = turn.checked_sub(1).map(|further| &self.further[further]) else {
            tokio::spawn(serve(stream));
            return;
        };
        // The socket is registered with the other runtime.
        let _inside = runtime.enter();
        if let Ok(stream) = stream.into_std().and_then(TcpStream::from_std) {
            runtime.spawn(serve(stream));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::TcpListener as StdListener;

    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    fn thread_name() -> String {
        thread::current().name().unwrap_or_default().to_owned()
    }

    /// Connections to a listener on the loopback address, accepted, with the ends of their clients.
    async fn connections(count: usize) -> Vec<(TcpStream, TcpStream)> {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let mut pairs = Vec::new();
        for _ in 0..count {
            let client = TcpStream::connect(address).await.unwrap();
            pairs.push((listener.accept().await.unwrap().0, client));
        }
        pairs
    }

    #[tokio::test]
    async fn connections_are_given_to_the_threads_in_turn() {
        let threads = ServingThreads::start(3).unwrap();
        let runtimes = threads.runtimes();
        let (names, mut reported) = mpsc::channel(6);
        for (stream, _client) in connections(6).await {
            let names = names.clone();
            runtimes.spawn(stream, |stream| async move {
                // The socket belongs to the runtime of the thread.
                stream.writable().await.unwrap();
                names.send(thread_name()).await.unwrap();
            });
        }
        let mut served = Vec::new();
        for _ in 0..6 {
            served.push(reported.recv().await.unwrap());
        }
        let distinct: HashSet<&String> = served.iter().collect();
        assert_eq!(distinct.len(), 3, "{served:?}");
        for name in distinct {
            assert_eq!(served.iter().filter(|other| *other == name).count(), 2);
        }
    }

    #[tokio::test]
    async fn what_is_still_served_ends_with_the_threads() {
        let threads = ServingThreads::start(2).unwrap();
        let runtimes = threads.runtimes();
        let (kept, mut dropped) = mpsc::channel::<()>(1);
        // The first is served by the main thread.
        for (stream, _client) in connections(2).await.into_iter() {
            let kept = kept.clone();
            runtimes.spawn(stream, |_stream| async move {
                let is_main = !thread_name().starts_with("serve-");
                if !is_main {
                    std::future::pending::<()>().await;
                }
                drop(kept);
            });
        }
        drop(kept);
        drop((threads, runtimes));
        assert_eq!(dropped.recv().await, None);
    }
}
