//! The table of lanes. The row of a queue has the number of lanes that take new jobs, and of lanes that may hold jobs.
//! Lanes beyond both are closed in their buckets (`verbs/lane.rs`).

use std::collections::HashMap;

use tidegate_core::{
    FORMER_NUMBERS_MAX, KeyPlacement, LaneCounts, LaneNumbers, LaneRow, QueueKey, keys,
};

use crate::error::StoreError;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::script_call::Call;
use crate::store::Store;

static LANES_SET: LazyScript = script!("lanes_set");
static LANES_SETTLE: LazyScript = script!("lanes_settle");

/// The field with the last epoch.
const LAST_EPOCH: &str = "#";

/// The contents of the table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneRows {
    /// The rows: queues with more than one lane in use.
    pub by_queue: HashMap<QueueKey, LaneRow>,
    /// The last epoch of any row. It only increases, unless Redis has lost writes.
    pub last_epoch: u64,
}

impl LaneRows {
    /// The row of a queue. A queue without a row has one lane.
    pub fn row(&self, queue: &QueueKey) -> LaneRow {
        // In most deployments the table is empty: no hash is computed.
        if self.by_queue.is_empty() {
            return LaneRow::default();
        }
        self.by_queue.get(queue).copied().unwrap_or_default()
    }

    /// How the keys of a queue are placed. A queue without a row has had one lane since the last epoch at the latest.
    pub fn placement(&self, queue: &QueueKey) -> KeyPlacement {
        match self.by_queue.get(queue) {
            Some(row) => row.placement(),
            None => KeyPlacement {
                epoch: self.last_epoch,
                ..KeyPlacement::FIRST_LANE
            },
        }
    }
}

/// The table of lanes of a deployment.
#[derive(Debug, Clone)]
pub struct Lanes {
    store: Store,
}

impl Lanes {
    fn call<'a>(&'a self, script: &'a LazyScript, queue: &QueueKey) -> Call<'a> {
        let call = self.store.call(script, keys::LANES.to_owned());
        call.arg(queue.to_string())
    }

    /// The whole table.
    ///
    /// # Errors
    /// Redis is unavailable, or a row is invalid.
    pub async fn rows(&self) -> Result<LaneRows, StoreError> {
        let all = redis::Cmd::hgetall(keys::LANES);
        let fields: Vec<(String, String)> = self.store.command(&all).await?;
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

    /// The rows of several queues, in their order.
    ///
    /// # Errors
    /// Redis is unavailable, or a row is invalid.
    pub async fn of_queues(&self, queues: &[&QueueKey]) -> Result<Vec<LaneRow>, StoreError> {
        let mut fields = redis::cmd("HMGET");
        fields.arg(keys::LANES);
        for queue in queues {
            fields.arg(queue.to_string());
        }
        let values: Vec<Option<String>> = self.store.command(&fields).await?;
        let rows = queues.iter().zip(values).map(|(queue, value)| {
            let Some(value) = value else {
                return Ok(LaneRow::default());
            };
            let name = queue.to_string();
            let row = parsed(&name, &value).ok_or_else(|| corrupt(&name, &value))?;
            Ok(row.1)
        });
        rows.collect()
    }

    /// Sets how many lanes of a queue take new jobs: 1 to [`tidegate_core::placement::lanes_max`]. Lanes from that
    /// number on stay in use until they are closed. Closed lanes below it have to be opened ([`Store::open_lane`]) with
    /// the epoch of the returned row, which is later than all epochs before.
    ///
    /// `above` is the last epoch that the caller knows.
    ///
    /// # Errors
    /// [`StoreError::KeysUnsettled`], [`StoreError::LanesLost`]: nothing changed. Redis is unavailable; the change may be executed nevertheless,
    /// even later.
    pub async fn set(
        &self,
        queue: &QueueKey,
        open: u16,
        above: u64,
    ) -> Result<LaneRow, StoreError> {
        self.change(queue, Some(open), 1, above, None).await
    }

    /// Gives the row of a queue an epoch later than `above` and all epochs before, and at least `used` lanes in use.
    /// `lost` are numbers of lanes by which keys may be placed too.
    ///
    /// # Errors
    /// Redis is unavailable; the change may be executed nevertheless, even later.
    pub async fn raise(
        &self,
        queue: &QueueKey,
        used: u16,
        above: u64,
        lost: Option<LaneNumbers>,
    ) -> Result<LaneRow, StoreError> {
        self.change(queue, None, used, above, lost).await
    }

    async fn change(
        &self,
        queue: &QueueKey,
        open: Option<u16>,
        used: u16,
        above: u64,
        lost: Option<LaneNumbers>,
    ) -> Result<LaneRow, StoreError> {
        let open = open.map_or_else(String::new, |open| open.to_string());
        let lost = lost.map_or_else(String::new, |lost| lost.to_string());
        let call = self.call(&LANES_SET, queue).arg(open).arg(used).arg(above);
        let mut reply = call.arg(lost).arg(FORMER_NUMBERS_MAX).send().await?;
        match reply.token() {
            "unsettled" => return Err(StoreError::KeysUnsettled(reply.parsed()?)),
            "lost" => return Err(StoreError::LanesLost),
            _ => {}
        }
        row(&mut reply.ok()?)
    }

    /// Takes the lanes from `still` on out of use, and keeps the numbers in `left`, if the row still equals `was`.
    /// Returns whether it does. All of these lanes must have been closed with the epoch of the row, and no job may be
    /// placed by a number that is not in `left`, both found out after the row was read.
    ///
    /// # Errors
    /// Redis is unavailable; the change may be executed nevertheless, even later.
    pub async fn settle(
        &self,
        queue: &QueueKey,
        was: LaneRow,
        still: u16,
        left: LaneNumbers,
    ) -> Result<bool, StoreError> {
        let LaneRow {
            counts,
            epoch,
            numbers,
        } = was;
        let call = self.call(&LANES_SETTLE, queue);
        let call = call.arg(counts.open).arg(counts.used).arg(epoch);
        let call = call.arg(still.max(counts.open));
        let call = call.arg(numbers.to_string()).arg(left.to_string());
        call.send().await?.ok()?.flag()
    }
}

fn corrupt(name: &str, value: &str) -> StoreError {
    StoreError::corrupt(format!(
        "invalid row {value:?} of {name:?} in {}",
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
    let numbers = numbers.next()?.parse().ok()?;
    let row = LaneRow {
        counts,
        epoch,
        numbers,
    };
    Some((QueueKey::try_from(name).ok()?, row))
}

fn row(reply: &mut Reply) -> Result<LaneRow, StoreError> {
    let mut lanes = || {
        let count = reply.count()?;
        u16::try_from(count)
            .map_err(|_| StoreError::corrupt(format!("script returned {count} lanes")))
    };
    let counts = LaneCounts {
        open: lanes()?,
        used: lanes()?,
    };
    Ok(LaneRow {
        counts,
        epoch: reply.count()?,
        numbers: reply.parsed()?,
    })
}

impl Store {
    /// The table of lanes of this deployment.
    pub fn lanes(&self) -> Lanes {
        let store = self.clone();
        Lanes { store }
    }
}
