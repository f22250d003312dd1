//! How many lanes queues have. A row of one table says how many take new jobs, and how many may hold some. Lanes that
//! do neither are closed in their buckets (`verbs/lane.rs`).

use std::collections::HashMap;

use tidegate_core::{LaneCounts, LaneRow, QueueKey, keys};

use crate::reply::Reply;
use crate::script::{Call, LazyScript, script};
use crate::{Store, StoreError};

static LANES_SET: LazyScript = script!("lanes_set");
static LANES_SETTLE: LazyScript = script!("lanes_settle");

/// The field of the table with the last epoch.
const LAST_EPOCH: &str = "#";

/// What the table holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneRows {
    /// The queues that have, or had until lately, more than one lane.
    pub by_queue: HashMap<QueueKey, LaneRow>,
    /// The last epoch that a row was given. It only grows, unless Redis lost what was written last.
    pub last_epoch: u64,
}

impl LaneRows {
    /// The row of a queue. A queue that is not in the table has one lane.
    #[must_use]
    pub fn row(&self, queue: &QueueKey) -> LaneRow {
        // Most deployments have no lanes, and no use for a hash.
        if self.by_queue.is_empty() {
            return LaneRow::default();
        }
        self.by_queue.get(queue).copied().unwrap_or_default()
    }
}

/// The numbers of lanes in one deployment.
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

    /// The whole table.
    ///
    /// # Errors
    /// Redis is unavailable, or holds something else than rows.
    pub async fn rows(&self) -> Result<LaneRows, StoreError> {
        let mut all = redis::cmd("HGETALL");
        let fields: Vec<(String, String)> = self.store.command(all.arg(keys::LANES)).await?;
        let mut rows = LaneRows::default();
        for (name, value) in fields {
            if name == LAST_EPOCH {
                let last = value.parse().ok();
                rows.last_epoch = last.ok_or_else(|| corrupt(&name, &value))?;
            } else {
                let row = parsed(&name, &value);
                let (queue, row) = row.ok_or_else(|| corrupt(&name, &value))?;
                rows.by_queue.insert(queue, row);
            }
        }
        Ok(rows)
    }

    /// Sets how many lanes of a queue take new jobs: 1 to [`tidegate_core::placement::lanes_max`]. Lanes
    /// above that stay in use until they are closed. Lanes below it that are closed have to be opened
    /// ([`Store::open_lane`]) with the epoch of the row, which is later than all before it.
    ///
    /// # Errors
    /// Redis is unavailable; it may be done, or be done later.
    pub async fn set(&self, queue: &QueueKey, open: u16) -> Result<LaneRow, StoreError> {
        self.change(queue, Some(open), 1, 0).await
    }

    /// Gives the row of a queue an epoch later than `above` and all before it, with at least `used` lanes in use.
    ///
    /// # Errors
    /// Redis is unavailable; it may be done, or be done later.
    pub async fn raise(
        &self,
        queue: &QueueKey,
        used: u16,
        above: u64,
    ) -> Result<LaneRow, StoreError> {
        self.change(queue, None, used, above).await
    }

    async fn change(
        &self,
        queue: &QueueKey,
        open: Option<u16>,
        used: u16,
        above: u64,
    ) -> Result<LaneRow, StoreError> {
        let call = self.call(&LANES_SET, queue);
        let call = match open {
            Some(open) => call.arg(open),
            None => call.arg(""),
        };
        row(&mut call.arg(used).arg(above).send().await?.ok()?)
    }

    /// Takes the lanes from `still` on out of use if the row is as it was, and answers whether it was. All of these
    /// lanes must have been closed with the epoch of the row, after the row was read.
    ///
    /// # Errors
    /// Redis is unavailable; it may be done, or be done later.
    pub async fn settle(
        &self,
        queue: &QueueKey,
        was: LaneRow,
        still: u16,
    ) -> Result<bool, StoreError> {
        let LaneRow { counts, epoch } = was;
        let call = self.call(&LANES_SETTLE, queue);
        let call = call.arg(counts.open).arg(counts.used).arg(epoch);
        let call = call.arg(still.max(counts.open));
        call.send().await?.ok()?.flag()
    }
}

fn corrupt(name: &str, value: &str) -> StoreError {
    StoreError::corrupt(format!(
        "{value:?} as the row of {name:?} in {}",
        keys::LANES
    ))
}

fn parsed(name: &str, row: &str) -> Option<(QueueKey, LaneRow)> {
    let mut numbers = row.split(' ');
    let mut lanes = || numbers.next()?.parse().ok();
    let counts = LaneCounts {
        open: lanes()?,
        used: lanes()?,
    };
    let epoch = numbers.next()?.parse().ok()?;
    Some((QueueKey::try_from(name).ok()?, LaneRow { counts, epoch }))
}

fn row(reply: &mut Reply) -> Result<LaneRow, StoreError> {
    let mut lanes = || {
        let count = reply.count()?;
        u16::try_from(count).map_err(|_| StoreError::corrupt(format!("{count} lanes")))
    };
    let counts = LaneCounts {
        open: lanes()?,
        used: lanes()?,
    };
    let epoch = reply.count()?;
    Ok(LaneRow { counts, epoch })
}
