//! The threads that serve connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::own_runtime::spawn_thread;

/// Threads that serve connections, each with a runtime of its own. A connection stays on its thread, so that its state
/// stays in the cache of one processor, and threads neither take tasks from each other nor share the locks of a
/// scheduler. The main thread is the first of them.
#[derive(Debug)]
pub struct ServingThreads {
    runtimes: ServingRuntimes,
    stop: CancellationToken,
    further: Vec<JoinHandle<()>>,
}

/// The open files of a thread beside the main one: its poll, twice, its wake-up and its signals.
pub const OPEN_FILES_OF_A_THREAD: u64 = 4;

/// The runtimes of these threads. A connection is given to the runtime with the fewest; by default there is only the
/// main thread. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ServingRuntimes(Arc<[ServingRuntime]>);

#[derive(Debug)]
struct ServingRuntime {
    /// `None` = the runtime of the main thread.
    further: Option<Handle>,
    open: Arc<AtomicUsize>,
}

/// A connection that is served by a thread, until this is dropped.
#[derive(Debug)]
pub(crate) struct ServedConnection {
    open: Arc<AtomicUsize>,
}

impl ServingThreads {
    /// Starts `count` threads, the main one included.
    ///
    /// # Errors
    /// The system has no resources for a thread.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut runtimes = vec![ServingRuntime::new(None)];
        // If a thread does not start, dropping this ends the threads before it.
        let mut started = Self {
            runtimes: ServingRuntimes::default(),
            stop: CancellationToken::new(),
            further: Vec::new(),
        };
        for number in 1..count {
            let stopped = started.stop.clone().cancelled_owned();
            let begin = move |handle: &Handle| Ok((handle.clone(), stopped));
            let (handle, thread) = spawn_thread(&format!("serve-{number}"), begin)?;
            runtimes.push(ServingRuntime::new(Some(handle)));
            started.further.push(thread);
        }
        started.runtimes = ServingRuntimes(runtimes.into());
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

impl Default for ServingRuntimes {
    fn default() -> Self {
        Self([ServingRuntime::new(None)].into())
    }
}

impl ServingRuntime {
    fn new(further: Option<Handle>) -> Self {
        Self {
            further,
            open: Arc::default(),
        }
    }
}

impl ServingRuntimes {
    /// Serves a connection on the thread with the fewest, the first of several. `serve` keeps the [`ServedConnection`]
    /// as long as it serves. Must be called inside the runtime of the main thread.
    ///
    /// # Errors
    /// The socket cannot be registered with the runtime of that thread.
    pub(crate) fn spawn<F>(
        &self,
        stream: TcpStream,
        serve: impl FnOnce(TcpStream, ServedConnection) -> F,
    ) -> io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let threads = self.0.iter();
        let chosen = threads.min_by_key(|thread| thread.open.load(Ordering::Relaxed));
        let chosen = chosen.expect("the main thread is one of them");
        let served = ServedConnection::new(&chosen.open);
        let Some(runtime) = &chosen.further else {
            tokio::spawn(serve(stream, served));
            return Ok(());
        };
        let _inside = runtime.enter();
        let stream = TcpStream::from_std(stream.into_std()?)?;
        runtime.spawn(serve(stream, served));
        Ok(())
    }
}

impl ServedConnection {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self {
            open: Arc::clone(open),
        }
    }
}

impl Drop for ServedConnection {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::TcpListener as StdListener;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    fn thread_name() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
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

    /// Serves a connection until its client sends a byte or hangs up, and reports the name of the thread.
    fn serve_until_read(
        runtimes: &ServingRuntimes,
        stream: TcpStream,
        names: &mpsc::Sender<String>,
    ) {
        let names = names.clone();
        let serve = |mut stream: TcpStream, served| async move {
            names.send(thread_name()).await.unwrap();
            // The socket belongs to the runtime of the thread.
            let _ = stream.read_u8().await;
            drop(served);
            // The test may have ended.
            let _ = names.send("ended".to_owned()).await;
        };
        runtimes.spawn(stream, serve).unwrap();
    }

    #[tokio::test]
    async fn each_thread_serves_as_many_connections() {
        let threads = ServingThreads::start(3).unwrap();
        let runtimes = threads.runtimes();
        let (names, mut reported) = mpsc::channel(6);
        let mut clients = Vec::new();
        for (stream, client) in connections(6).await {
            serve_until_read(&runtimes, stream, &names);
            clients.push(client);
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

    /// A balancer opens a connection for each of its probes, between connections that last.
    #[tokio::test]
    async fn short_connections_change_nothing_for_those_that_last() {
        let threads = ServingThreads::start(2).unwrap();
        let runtimes = threads.runtimes();
        let (names, mut reported) = mpsc::channel(2);
        let (mut lasting, mut served) = (Vec::new(), Vec::new());
        let pairs = connections(8).await;
        for (number, (stream, client)) in pairs.into_iter().enumerate() {
            serve_until_read(&runtimes, stream, &names);
            let name = reported.recv().await.unwrap();
            if number % 2 == 0 {
                lasting.push(client);
                served.push(name);
            } else {
                drop(client);
                assert_eq!(reported.recv().await.unwrap(), "ended");
            }
        }
        let further = served.iter().filter(|name| *name == "serve-1").count();
        assert_eq!(further, 2, "{served:?}");
    }

    #[tokio::test]
    async fn what_is_still_served_ends_with_the_threads() {
        let threads = ServingThreads::start(2).unwrap();
        let runtimes = threads.runtimes();
        let (kept, mut dropped) = mpsc::channel::<()>(1);
        let (began, mut begun) = mpsc::channel(2);
        // The first is served by the main thread.
        for (stream, _client) in connections(2).await.into_iter() {
            let kept = kept.clone();
            let began = began.clone();
            let serve = |stream, served| async move {
                let is_main = !thread_name().starts_with("serve-");
                began.send(is_main).await.unwrap();
                if !is_main {
                    std::future::pending::<()>().await;
                }
                drop((stream, served, kept));
            };
            runtimes.spawn(stream, serve).unwrap();
        }
        let mut on_main = [begun.recv().await.unwrap(), begun.recv().await.unwrap()];
        on_main.sort_unstable();
        assert_eq!(on_main, [false, true]);
        drop(kept);
        drop((threads, runtimes));
        assert_eq!(dropped.recv().await, None);
    }
}
