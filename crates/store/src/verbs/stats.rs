use tidegate_core::Lane;

use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::store::Store;

static STATS: LazyScript = script!("stats");

/// The number of jobs of a queue, or of a lane, by state. Expired jobs are counted until the sweep deletes them, about
/// a second later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Jobs that are not due yet.
    pub delayed: u64,
    /// Jobs that can be consumed now.
    pub ready: u64,
    /// Jobs that consumers hold.
    pub leased: u64,
    /// Jobs in the dead-letter queue.
    pub dead: u64,
    /// Jobs that are done, and kept for a while.
    pub done: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.delayed += other.delayed;
        self.ready += other.ready;
        self.leased += other.leased;
        self.dead += other.dead;
        self.done += other.done;
    }
}

impl Stats {
    /// Reads the counts in the order of the states. A count below 0 becomes 0: a job with a damaged record may be
    /// subtracted from another count than it was added to.
    pub(super) fn read(reply: &mut Reply) -> Result<Self, StoreError> {
        let mut count = || Ok::<_, StoreError>(u64::try_from(reply.integer()?).unwrap_or(0));
        Ok(Self {
            delayed: count()?,
            ready: count()?,
            leased: count()?,
            dead: count()?,
            done: count()?,
        })
    }
}

impl Store {
    /// The number of jobs of a lane by state.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn stats<'a>(&self, lane: impl Into<Lane<'a>>) -> Result<Stats, StoreError> {
        let lane = lane.into();
        let call = self.call_on_queue(&STATS, lane.queue, self.bucket_of(lane));
        Stats::read(&mut call.send().await?.ok()?)
    }
}
