use tidegate_core::{JobsByState, Lane};

use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::store::Store;

static STATS: LazyScript = script!("stats");

impl Reply {
    /// Reads the counts of jobs in the order of the states. A count below 0 becomes 0: a job with a damaged record may
    /// be subtracted from another count than it was added to.
    pub(super) fn jobs_by_state(&mut self) -> Result<JobsByState, StoreError> {
        let mut count = || Ok::<_, StoreError>(u64::try_from(self.integer()?).unwrap_or(0));
        Ok(JobsByState {
            delayed: count()?,
            ready: count()?,
            leased: count()?,
            dead: count()?,
            done: count()?,
        })
    }
}

impl Store {
    /// The number of jobs of a lane by state. Expired jobs are counted until the sweep deletes them, about a second
    /// later.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn stats<'a>(&self, lane: impl Into<Lane<'a>>) -> Result<JobsByState, StoreError> {
        let lane = lane.into();
        let call = self.call_on_queue(&STATS, lane.queue, self.bucket_of(lane));
        call.send().await?.ok()?.jobs_by_state()
    }
}
