//! How many lanes queues have. A row of one table tells how many take new jobs, and how many may hold some.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::{LaneCounts, QueueKey, keys};

use crate::reply::Reply;
use crate::script::{Call, LazyScript, script};
use crate::{Store, StoreError};

static LANES_SET: LazyScript = script!("lanes_set");
static LANES_COVER: LazyScript = script!("lanes_cover");
static LANES_SETTLE: LazyScript = script!("lanes_settle");

/// The numbers of lanes in one deployment. A queue that is not in the table has one.
#[derive(Debug, Clone)]
pub struct Lanes {
    store: Store,
}

impl Lanes {
    pub(crate) const fn new(store: Store) -> Self {
        Self { store }
    }

    fn call<'a>(&'a self, script: &'a LazyScript, queue: &QueueKey) -> Call<'a> {
        let call = self.store.call(script, keys::LANES.to_owned());
        call.arg(queue.to_string())
    }

    /// The queues that have, or had until lately, more than one lane.
    ///
    /// # Errors
    /// Redis is unavailable, or holds what is no row.
    pub async fn list(&self) -> Result<HashMap<QueueKey, LaneCounts>, StoreError> {
        let mut all = redis::cmd("HGETALL");
        let rows: Vec<(String, String)> = self.store.command(all.arg(keys::LANES)).await?;
        rows.into_iter()
            .map(|(name, counts)| {
                let row = parsed(&name, &counts);
                row.ok_or_else(|| StoreError::corrupt(format!("lanes {counts:?} of {name:?}")))
            })
            .collect()
    }

    /// Says how many lanes of a queue take new jobs: 1 to [`tidegate_core::placement::lanes_max`]. Lanes
    /// that are closed by it stay in use until they were found empty.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn set(&self, queue: &QueueKey, open: u16) -> Result<LaneCounts, StoreError> {
        let call = self.call(&LANES_SET, queue).arg(open);
        counts(&mut call.send().await?.ok()?)
    }

    /// Has at least so many lanes of a queue count as used: for whoever stored jobs in a lane that may have
    /// been closed meanwhile.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn cover(&self, queue: &QueueKey, used: u16) -> Result<LaneCounts, StoreError> {
        let call = self.call(&LANES_COVER, queue).arg(used);
        counts(&mut call.send().await?.ok()?)
    }

    /// Has the lanes from `still` on count as used no more, if the counts are as they `were`, and no lane
    /// was closed within the time `quiet`. The lanes must have been found empty after the counts were
    /// read. Whether it is so now.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn settle(
        &self,
        queue: &QueueKey,
        were: LaneCounts,
        still: u16,
        quiet: Duration,
    ) -> Result<bool, StoreError> {
        let quiet_ms = u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX);
        let call = self.call(&LANES_SETTLE, queue);
        let call = call.arg(were.open).arg(were.used);
        let call = call.arg(still.max(were.open)).arg(quiet_ms);
        call.send().await?.ok()?.flag()
    }
}

fn parsed(name: &str, counts: &str) -> Option<(QueueKey, LaneCounts)> {
    let mut numbers = counts.split(' ').map(|number| number.parse().ok());
    let counts = LaneCounts {
        open: numbers.next()??,
        used: numbers.next()??,
    };
    Some((QueueKey::try_from(name).ok()?, counts))
}

fn counts(reply: &mut Reply) -> Result<LaneCounts, StoreError> {
    let mut count = || {
        let count = reply.count()?;
        u16::try_from(count).map_err(|_| StoreError::corrupt(format!("{count} lanes")))
    };
    Ok(LaneCounts {
        open: count()?,
        used: count()?,
    })
}
