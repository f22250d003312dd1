//! Processes that are registered as waiting for jobs.

use std::time::Duration;

use tidegate_core::QueueKey;
use tidegate_store::{Doorbell, Messages, Store, StoreConfig};
use tokio::time::timeout;

use crate::fixture::{LIMIT, StoreFixture};

/// Long enough for any message that is sent, and short enough to wait for one that is not.
const QUIET: Duration = Duration::from_millis(300);

/// Waits for the message that follows a new subscription to all buckets.
pub(crate) async fn listening(doorbells: &mut Messages<Doorbell>) {
    match doorbells.next().await {
        Some(Doorbell::Resubscribed { buckets }) => assert!(!buckets.is_empty()),
        other => panic!("{other:?}"),
    }
}

/// A process beside that of the fixture. It listens from the start.
pub(crate) struct WaitingProcess {
    pub(crate) store: Store,
    doorbells: Messages<Doorbell>,
}

impl WaitingProcess {
    pub(crate) async fn start(f: &StoreFixture) -> Self {
        let mut config = StoreConfig::new(f.redis.url());
        config.buckets = 1;
        let store = Store::connect(&config).await.unwrap();
        let mut doorbells = store.doorbells();
        listening(&mut doorbells).await;
        Self { store, doorbells }
    }

    /// Registers it for an empty queue at this time, as a poll does.
    pub(crate) async fn register(&self, now_ms: u64, queue: &QueueKey) {
        let store = self.store.at(now_ms);
        let polled = store.poll(0, [queue].into_iter()).await.unwrap();
        assert_eq!(polled, [false], "the queue is empty");
    }

    /// One that is registered for a queue.
    pub(crate) async fn registered(f: &StoreFixture, now_ms: u64, queue: &QueueKey) -> Self {
        let process = Self::start(f).await;
        process.register(now_ms, queue).await;
        process
    }

    /// Waits for a doorbell of this queue, which must be the next message.
    #[track_caller]
    pub(crate) fn rang_for<'a>(&'a mut self, queue: &'a QueueKey) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let rang = timeout(LIMIT, self.doorbells.next()).await;
            let expected = Doorbell::Rang {
                queue: queue.clone(),
                bucket: 0,
            };
            assert_eq!(rang, Ok(Some(expected)), "{caller}");
        }
    }

    /// Whether no message has come.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        timeout(QUIET, self.doorbells.next()).await.is_err()
    }
}
