//! What the tests share: a server, clients, and a worker that runs beside the test.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate::{Client, Error, Worker};
use tidegate_testkit::{NativeClient, SharedStack, Stack};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The server of the tests that need nothing special. Each uses a namespace of its own.
pub(crate) static SERVER: SharedStack = SharedStack::new(Stack::builder);

/// A client of a namespace, and one of the test kit for the same.
pub(crate) async fn clients(stack: &Stack, namespace: &str) -> (Client, NativeClient) {
    let native = NativeClient::new(stack.api(0), namespace).await;
    let client = client_at(stack.api(0).listen(), &native, namespace);
    (client, native)
}

/// A client that uses this address.
pub(crate) fn client_at(address: SocketAddr, native: &NativeClient, namespace: &str) -> Client {
    let builder = Client::builder(format!("http://{address}")).key(native.key());
    builder.namespace(namespace).build().unwrap()
}

/// A worker that runs until it is stopped.
pub(crate) struct RunningWorker {
    stop: oneshot::Sender<()>,
    run: JoinHandle<Result<(), Error>>,
}

impl RunningWorker {
    /// Starts a worker with this grace period.
    pub(crate) fn start(worker: Worker, grace: Duration) -> Self {
        let (stop, stopped) = oneshot::channel();
        let run = worker
            .run_until(async move { drop(stopped.await) })
            .grace(grace);
        Self {
            stop,
            run: tokio::spawn(run.into_future()),
        }
    }

    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        tokio::time::timeout(LIMIT, self.run)
            .await
            .expect("the worker stops")
            .unwrap()
            .unwrap();
    }

    /// Ends it as a process that is killed does: nothing is reported.
    pub(crate) async fn kill(self) {
        self.run.abort();
        let _ = self.run.await;
    }
}
