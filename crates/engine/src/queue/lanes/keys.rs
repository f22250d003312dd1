//! The lanes of keys, while the number of lanes changes: what a process does when a lane refuses the placement that it
//! knows, and finding out which former numbers of lanes are no longer needed (`docs/decisions/0086-keys-on-lanes.md`).

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use tidegate_core::limits::LANES_MAX;
use tidegate_core::{KeyHash, KeyPlacement, LaneRow, QueueKey};
use tidegate_store::{KeysCursor, LaneKeys, LaneRows, StoreError};
use tokio::sync::Mutex as TurnLock;
use tokio::time::Instant;

use super::LaneTable;

/// How long a request with an idempotency key may be repeated, in ms.
pub(crate) const IDEMPOTENCY_WINDOW_MS: u64 = 600_000;

/// How often a call by keys is made again because the number of lanes has changed meanwhile.
pub(crate) const PLACEMENTS_MAX: usize = 8;

/// About how many keys of a lane one call reads: it takes 1 ms of Redis at most.
const KEYS_PER_CALL: usize = 500;
/// How many calls a check of a former number makes at most: one for each lane of a queue with few keys, and some more.
const CALLS_PER_CHECK: usize = LANES_MAX as usize + 16;

/// For how long an idempotency key may be found.
const REMEMBERED: Duration = Duration::from_millis(2 * IDEMPOTENCY_WINDOW_MS);

/// What this process knows of the former numbers of lanes of all queues.
#[derive(Debug, Default)]
pub(super) struct FormerNumbers {
    walks: Mutex<HashMap<QueueKey, KeyWalks>>,
    /// Taken by the call that renews a placement. The others wait, and find it renewed; or when and how it has failed.
    renewing: TurnLock<Option<(Instant, StoreError)>>,
}

/// Walks through the keys of a queue, one for each former number of lanes.
#[derive(Debug, Clone)]
struct KeyWalks {
    /// All lanes have refused earlier placements than this one since.
    since: KeyPlacement,
    by_number: HashMap<u16, KeyWalk>,
}

/// A walk through the lanes of a former number. No key before its place is placed by the number.
#[derive(Debug, Clone, Default)]
struct KeyWalk {
    lane: u16,
    cursor: KeysCursor,
    /// When it had found no such key in any lane.
    ended_at: Option<Instant>,
}

impl FormerNumbers {
    /// Forgets the walks for queues without a row.
    pub(super) fn keep(&self, rows: &LaneRows) {
        let mut walks = self.walks.lock();
        walks.retain(|queue, _| rows.by_queue.contains_key(queue));
    }
}

impl LaneTable {
    /// How the keys of a queue are placed.
    pub(crate) fn placement(&self, queue: &QueueKey) -> KeyPlacement {
        self.known.load().placement(queue)
    }

    /// Renews the placement of a queue after a lane refused `was`, since it was asked with `floor`.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn renew(
        &self,
        queue: &QueueKey,
        was: KeyPlacement,
        floor: KeyPlacement,
    ) -> Result<(), StoreError> {
        self.in_turn(async || {
            let known = self.placement(queue);
            if known == was || known.is_lost_before(floor) {
                self.read().await?;
            }
            if self.placement(queue).is_lost_before(floor) {
                tracing::warn!(%queue, epoch = floor.epoch, numbers = %floor.numbers, "restored lanes of keys after Redis lost the last change of the lane table; set the number of lanes of the queue again");
                let (used, lost) = (floor.numbers.lanes(), Some(floor.numbers));
                let lanes = self.store.lanes();
                lanes.raise(queue, used, floor.epoch, lost).await?;
                self.read().await?;
            }
            Ok(())
        })
        .await
    }

    /// Runs one renewal at a time. One that has failed while others waited has failed for them too: each of them would
    /// wait for the same server again.
    async fn in_turn(
        &self,
        renew: impl AsyncFnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let came = Instant::now();
        let mut failed = self.formers.renewing.lock().await;
        if let Some((_, error)) = failed.as_ref().filter(|(at, _)| *at > came) {
            return Err(error.clone());
        }
        let renewed = renew().await;
        *failed = renewed
            .as_ref()
            .err()
            .map(|error| (Instant::now(), error.clone()));
        renewed
    }

    /// Opens a lane that was closed although the placement of keys has it open, or reads the table if that has changed.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn reopen(
        &self,
        queue: &QueueKey,
        lane: u16,
        was: KeyPlacement,
    ) -> Result<(), StoreError> {
        self.in_turn(async || {
            if self.placement(queue) == was {
                let rows = self.read().await?;
                self.try_open_lane(queue, lane, rows.row(queue)).await?;
                self.read().await?;
            }
            Ok(())
        })
        .await
    }

    /// Drops the former numbers of lanes by which no job of a queue is placed any more. Bounded: a later call continues
    /// with the rest. If a lane refuses the row, the placement of the queue is renewed.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn settle_numbers(
        &self,
        queue: &QueueKey,
        row: LaneRow,
    ) -> Result<(), StoreError> {
        match self.try_settle_numbers(queue, row).await {
            Err(StoreError::PlacementStale(floor)) => {
                self.formers.walks.lock().remove(queue);
                self.renew(queue, row.placement(), floor).await
            }
            settled => settled,
        }
    }

    async fn try_settle_numbers(&self, queue: &QueueKey, row: LaneRow) -> Result<(), StoreError> {
        let mut walks = self.walks_of(queue, row).await?;
        let mut left = row.numbers;
        for former in row.numbers.formers() {
            let walk = walks.by_number.entry(former).or_default();
            if self.is_unused(queue, row, former, walk).await? {
                left = left.without(former);
            }
        }
        self.formers.walks.lock().insert(queue.clone(), walks);
        if left == row.numbers {
            return Ok(());
        }
        let lanes = self.store.lanes();
        if lanes.settle(queue, row, row.counts.used, left).await? {
            tracing::info!(%queue, numbers = %left, "dropped former numbers of lanes: no key is placed by them");
        }
        self.read().await?;
        Ok(())
    }

    /// The walks for a row. New ones begin when all lanes refuse earlier placements: from then on the keys that are placed
    /// by a former number only become fewer, so that a walk which finds none in any lane is a proof.
    async fn walks_of(&self, queue: &QueueKey, row: LaneRow) -> Result<KeyWalks, StoreError> {
        let known = self.formers.walks.lock().get(queue).cloned();
        let is_of_row = |known: &KeyWalks| {
            known.since.epoch == row.epoch && row.numbers.is_part_of(known.since.numbers)
        };
        if let Some(known) = known.filter(is_of_row) {
            return Ok(known);
        }
        let begin = KeysCursor::default();
        let lanes = 0..row.numbers.lanes();
        let raising = lanes.map(|lane| {
            let lane = queue.lane(lane);
            self.store.lane_keys(lane, row.placement(), &begin, 1)
        });
        try_join_all(raising).await?;
        Ok(KeyWalks {
            since: row.placement(),
            by_number: HashMap::new(),
        })
    }

    /// Whether no job, and no request that may be repeated, is found by a former number alone.
    async fn is_unused(
        &self,
        queue: &QueueKey,
        row: LaneRow,
        former: u16,
        walk: &mut KeyWalk,
    ) -> Result<bool, StoreError> {
        if walk.ended_at.is_none() {
            self.walk_on(queue, row, former, walk).await?;
        }
        // As long as a job is there, a request that finds it may be remembered beside it.
        match walk.ended_at {
            None => Ok(false),
            Some(ended_at) if ended_at.elapsed() >= REMEMBERED => Ok(true),
            Some(_) => {
                let lanes = (0..former).map(|lane| queue.lane(lane));
                let looks =
                    lanes.map(|lane| self.store.lane_has_requests(lane, IDEMPOTENCY_WINDOW_MS));
                let has_requests = try_join_all(looks).await?;
                Ok(!has_requests.contains(&true))
            }
        }
    }

    /// Continues a walk until a key is placed by the former number, or the walk has ended. Bounded.
    async fn walk_on(
        &self,
        queue: &QueueKey,
        row: LaneRow,
        former: u16,
        walk: &mut KeyWalk,
    ) -> Result<(), StoreError> {
        for _ in 0..CALLS_PER_CHECK {
            if walk.lane >= former {
                walk.ended_at = Some(Instant::now());
                return Ok(());
            }
            let lane = queue.lane(walk.lane);
            let reading = self
                .store
                .lane_keys(lane, row.placement(), &walk.cursor, KEYS_PER_CALL);
            let LaneKeys { keys, next } = reading.await?;
            let is_placed_by = |key: &KeyHash| {
                key.lane(former) == walk.lane && key.lane(row.numbers.present()) != walk.lane
            };
            if keys.iter().any(is_placed_by) {
                return Ok(());
            }
            if next.is_none() {
                walk.lane += 1;
            }
            walk.cursor = next.unwrap_or_default();
        }
        Ok(())
    }
}
