use tidegate_core::Lane;

use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static STATS: LazyScript = script!("stats");

/// The jobs of a queue, or of a lane, by state. Jobs whose time to live is over count until the sweep has seen them,
/// about a second later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Jobs that wait for their time.
    pub delayed: u64,
    /// Jobs that could be consumed now.
    pub ready: u64,
    /// Jobs in the hands of consumers.
    pub leased: u64,
    /// Jobs whose tries are used up.
    pub dead: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.delayed += other.delayed;
        self.ready += other.ready;
        self.leased += other.leased;
        self.dead += other.dead;
    }
}

impl Stats {
    /// The counts as scripts give them: in the order of the states. A job whose record was damaged may
    /// be taken from another count than it was added to; one below 0 is shown as 0.
    pub(super) fn read(reply: &mut Reply) -> Result<Self, StoreError> {
        let mut count = || Ok::<_, StoreError>(u64::try_from(reply.integer()?).unwrap_or(0));
        Ok(Self {
            delayed: count()?,
            ready: count()?,
            leased: count()?,
            dead: count()?,
        })
    }
}

impl Store {
    /// Counts the jobs of a lane.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn stats<'a>(&self, lane: impl Into<Lane<'a>>) -> Result<Stats, StoreError> {
        let lane = lane.into();
        let call = self.call_on_queue(&STATS, lane.queue, self.bucket_of(lane));
        Stats::read(&mut call.send().await?.ok()?)
    }
}
