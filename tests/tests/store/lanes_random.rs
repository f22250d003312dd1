//! The calls that change lanes, in random orders, each with a row that its caller read at any earlier time. After each
//! call every job is in a lane that consumers read.

use std::collections::VecDeque;

use rand::RngExt;
use rand::rngs::StdRng;
use tidegate_core::{JobId, JobsByState, LaneNumbers, LaneRow, QueueKey};
use tidegate_store::{Claim, Store, StoreConfig, StoreError};
use tidegate_testkit::{RedisOptions, consistency, print_figure, random};

use crate::fixture::job;

const LANES: u16 = 4;
const STEPS: usize = 3000;
const ROWS_KEPT: usize = 8;

/// A process that closes lanes from the last one on.
#[derive(Debug, Clone, Copy)]
struct Settler {
    row: LaneRow,
    still: u16,
}

struct LanesRun {
    store: Store,
    queue: QueueKey,
    random: StdRng,
    /// Rows that were read recently: any process may use any of them.
    rows: VecDeque<LaneRow>,
    settlers: [Option<Settler>; 3],
    held: Vec<JobId>,
    settled: usize,
    refused: usize,
    consumed: usize,
}

impl LanesRun {
    fn lane(&mut self) -> u16 {
        self.random.random_range(0..LANES)
    }

    fn old_row(&mut self) -> LaneRow {
        self.rows[self.random.random_range(0..self.rows.len())]
    }

    async fn read(&mut self) -> LaneRow {
        let row = self.store.lanes().rows().await.unwrap().row(&self.queue);
        if self.rows.back() != Some(&row) {
            self.rows.push_back(row);
        }
        if self.rows.len() > ROWS_KEPT {
            self.rows.pop_front();
        }
        row
    }

    async fn step(&mut self) {
        match self.random.random_range(0..30) {
            0 => {
                let open = 1 + self.lane();
                match self.store.lanes().set(&self.queue, open, 0).await {
                    Ok(_) | Err(StoreError::KeysUnsettled(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            1..4 => self.open().await,
            4..8 => {
                let is_late = self.random.random_bool(0.3);
                let row = if is_late {
                    self.old_row()
                } else {
                    self.read().await
                };
                let settler = self.random.random_range(0..self.settlers.len());
                let still = row.counts.used;
                let is_due = still > row.counts.open;
                self.settlers[settler] = is_due.then_some(Settler { row, still });
            }
            8..22 => self.close_or_settle().await,
            22..26 => self.publish().await,
            _ => self.consume().await,
        }
    }

    async fn open(&mut self) {
        let (row, lane) = (self.old_row(), self.lane());
        if (1..row.counts.open).contains(&lane) {
            let opening = self.store.open_lane(self.queue.lane(lane), row.epoch);
            opening.await.unwrap();
        }
    }

    async fn close_or_settle(&mut self) {
        let at = self.random.random_range(0..self.settlers.len());
        let Some(Settler { row, still }) = self.settlers[at] else {
            return;
        };
        let settles = still < row.counts.used && self.random.random_bool(0.3);
        if settles || still == row.counts.open {
            self.settlers[at] = None;
            let lanes = self.store.lanes();
            // No job has a key.
            let numbers = LaneNumbers::of(row.numbers.present()).unwrap();
            let settled = lanes.settle(&self.queue, row, still, numbers);
            self.settled += usize::from(settled.await.unwrap());
            return;
        }
        let last = self.queue.lane(still - 1);
        if self.store.close_lane(last, row.epoch).await.unwrap() {
            let still = still - 1;
            self.settlers[at] = Some(Settler { row, still });
        }
    }

    async fn publish(&mut self) {
        let lane = self.lane().min(self.old_row().counts.open - 1);
        let jobs = [job("x")];
        let publish = self
            .store
            .try_publish(self.queue.lane(lane), &jobs, None, None);
        match publish.await.unwrap().stored() {
            Some(published) => self.held.extend(published.iter().map(|job| job.id)),
            None => self.refused += 1,
        }
    }

    async fn consume(&mut self) {
        let used = self.read().await.counts.used;
        let claims = [Claim::new(10, 60_000)];
        for lane in 0..used {
            let reserved = self
                .store
                .reserve(self.queue.lane(lane), &claims)
                .await
                .unwrap();
            for job in &reserved.jobs[0] {
                assert!(self.held.contains(&job.id));
                self.held.retain(|id| *id != job.id);
                let _ = self.store.ack(&self.queue, job.id, None).await.unwrap();
                self.consumed += 1;
            }
        }
    }

    /// Checks that every stored job that is not consumed is in a lane in use.
    async fn check(&mut self) {
        let used = self.read().await.counts.used;
        for lane in used..LANES {
            let stats = self.store.stats(self.queue.lane(lane)).await.unwrap();
            assert_eq!(stats, JobsByState::default(), "lane {lane} is not in use");
        }
        for id in &self.held {
            let lane = self.store.lane_in(id.bucket(), &self.queue, used);
            assert!(lane.is_some(), "{id} is in no lane in use");
        }
    }
}

#[tokio::test]
async fn no_order_of_lane_changes_strands_a_job() {
    let redis = RedisOptions::new().start();
    let mut config = StoreConfig::new(redis.url());
    config.buckets = 16;
    let mut run = LanesRun {
        store: Store::connect(&config).await.unwrap(),
        queue: QueueKey::try_from("shop/orders").unwrap(),
        random: random("lanes"),
        rows: VecDeque::new(),
        settlers: [None; 3],
        held: Vec::new(),
        settled: 0,
        refused: 0,
        consumed: 0,
    };
    run.read().await;
    for _ in 0..STEPS {
        run.step().await;
        run.check().await;
    }
    run.consume().await;
    assert_eq!(run.held, []);
    let LanesRun {
        settled,
        refused,
        consumed,
        ..
    } = run;
    print_figure(&format!(
        "{settled} times lanes were taken out of use, {refused} publishes refused, {consumed} jobs consumed"
    ));
    assert!(settled > 0 && refused > 0 && consumed > 0);
    consistency::check(&redis.url()).await;
}
