//! The messages about jobs that have ended while a client waited for that.

use tidegate_store::{Doorbell, Messages, Store};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::fixture::LIMIT;
use crate::waiting_process::listening;

/// The channel of the bucket of the tests.
const CHANNEL: &str = "tg:0:{8209}:bell";
/// The number of no job.
const LAST: u64 = 0;

/// A subscription to the messages.
pub(super) struct EndMessages(Mutex<Messages<Doorbell>>);

impl EndMessages {
    pub(super) async fn subscribe(store: &Store) -> Self {
        let mut doorbells = store.doorbells();
        listening(&mut doorbells).await;
        Self(Mutex::new(doorbells))
    }

    /// The job numbers of all messages since the last call, in order of the numbers.
    pub(super) async fn take(&self, connection: &mut redis::Connection) -> Vec<u64> {
        let mut last = redis::cmd("SPUBLISH");
        last.arg(CHANNEL).arg(format!("#{LAST}"));
        last.exec(connection).unwrap();
        let (mut doorbells, mut numbers) = (self.0.lock().await, Vec::new());
        loop {
            match timeout(LIMIT, doorbells.next()).await.unwrap() {
                Some(Doorbell::Ended { number: LAST, .. }) => break,
                Some(Doorbell::Ended { number, .. }) => numbers.push(number),
                Some(Doorbell::Rang { .. }) => {}
                other => panic!("messages may be lost: {other:?}"),
            }
        }
        numbers.sort_unstable();
        numbers
    }
}
