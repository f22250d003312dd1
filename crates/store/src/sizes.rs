//! The sizes of all queues, collected by one process for all: a hash with a TTL, in pages.
//!
//! The first process that finds them too old claims the collection, reads the queues, writes pages, and makes these the stored
//! sizes. The others read the pages. The sizes are a cache: without them, each process reads the queues.

mod claim_sizes;
mod finish_sizes;
mod page;

use std::time::Duration;

use redis::Cmd;
use tidegate_core::keys;

use crate::error::StoreError;
use crate::store::Store;
use crate::verbs::AllQueues;
use page::SizesPage;

/// How long stored sizes of 1,000 queues are recent at least. A collection takes about 10 ms of Redis's CPU for 1,000 queues
/// (docs/benchmarks.md), so collections take at most about 1/240 of it.
const PAUSE_PER_1000_QUEUES: Duration = Duration::from_millis(2_400);
/// How much longer than sizes are recent they are kept.
const KEPT_LONGER: Duration = Duration::from_secs(60);
/// The most pages that are read, whatever the hash says.
const PAGES_MAX: u64 = 100_000;

/// The stored sizes of all queues of one deployment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedSizes {
    store: Store,
}

/// Which sizes are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizesVersion {
    /// Unique among all collections.
    pub id: String,
    /// How long ago their collection began.
    pub age: Duration,
    side: String,
    pages: u64,
}

/// The right to collect the sizes of all queues.
#[derive(Debug)]
pub struct SizesClaim {
    /// Unique; the number of the sizes, once they are stored.
    pub id: String,
    side: String,
}

/// The answer to a process that needs the sizes of all queues.
#[derive(Debug)]
#[must_use]
pub enum SizesAnswer {
    /// These are recent enough.
    Recent(SizesVersion),
    /// The caller must collect them, and store them.
    Claimed(SizesClaim),
    /// Another process collects them.
    Busy,
}

impl Store {
    /// The stored sizes of this deployment.
    #[must_use]
    pub fn shared_sizes(&self) -> SharedSizes {
        let store = self.clone();
        SharedSizes { store }
    }
}

impl SharedSizes {
    /// Reads stored sizes; `None` if a page is missing or damaged. Pages are missing once newer sizes are stored.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn read(&self, version: &SizesVersion) -> Result<Option<AllQueues>, StoreError> {
        let mut all = AllQueues::default();
        for number in 0..version.pages.min(PAGES_MAX) {
            let get = Cmd::hget(keys::SIZES, field(&version.side, number));
            let page: Option<Vec<u8>> = self.store.command(&get).await?;
            let page = page.and_then(|page| SizesPage::decode(&page, &version.id, number));
            let Some(page) = page else { return Ok(None) };
            page.add_to(&mut all);
        }
        Ok((version.pages <= PAGES_MAX).then_some(all))
    }
}

fn field(side: &str, page: u64) -> String {
    format!("{side}:{page}")
}

/// How long the hash is kept: sizes must not expire while they are recent.
fn kept_ms(refresh: Duration, queues: usize) -> u64 {
    let thousands = u32::try_from(queues / 1000).unwrap_or(u32::MAX);
    let recent = refresh.max(PAUSE_PER_1000_QUEUES.saturating_mul(thousands));
    milliseconds(recent.saturating_mul(2).saturating_add(KEPT_LONGER))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
