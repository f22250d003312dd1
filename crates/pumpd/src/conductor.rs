//! The next moment of every bucket we lead, in a timing wheel, and the runs of those that are up.
//!
//! A bucket is in the wheel or running, never both. An alarm moves a waiting bucket forward; for a
//! running one it is kept until the run has come back, because the run may have read Redis before the
//! timer was set.
//!
//! Buckets whose moment has come go before those that were run just now and have more to do: a bucket
//! with a million due jobs must not make the one late that has a single job. One run in four is kept for
//! the long ones, so that they go on whatever comes. And the run that a bucket's moment brings is short:
//! where a hundred buckets are due in the same instant, all of them have had a turn before the first one
//! has its second. As short runs hardly keep Redis from its other callers, many may be under way: a pump
//! that takes over looks at all its buckets at once, and would wait for the network most of the time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidegate_store::{Alarm, Alarms, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::bucket::{Agenda, Limits, Ran, run_once};
use crate::keeper::Change;
use crate::pump::Pool;
use crate::run_queue::{RunQueue, Turn};

/// What a bucket does when its moment has come; what is left is a backlog. A hundred such runs that only
/// move take Redis about 30 ms.
const TIMELY_LIMITS: Limits = Limits {
    moved: 32,
    loaded: 64,
    swept: 1,
};
/// How many runs may be under way for each long one that may.
const RUNS_PER_LONG_RUN: usize = 8;

enum Place {
    /// In the wheel.
    Waiting { key: Key, agenda: Agenda },
    /// Up, but as many buckets are running as may.
    Queued { agenda: Agenda },
    /// Running. `alarms` is what came meanwhile.
    Running { alarms: Option<Agenda> },
}

type Finished = (u16, Turn, Result<Ran, StoreError>);

pub(crate) struct Conductor {
    pool: Arc<Pool>,
    wheel: DelayQueue<u16>,
    queue: RunQueue,
    places: HashMap<u16, Place>,
    running: JoinSet<Finished>,
    /// How many of those are long runs.
    long_runs: usize,
}

impl Conductor {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            wheel: DelayQueue::new(),
            queue: RunQueue::default(),
            places: HashMap::new(),
            running: JoinSet::new(),
            long_runs: 0,
        }
    }

    /// Runs buckets until told to stop, then lets the running ones finish.
    pub(crate) async fn run(
        mut self,
        mut changes: mpsc::UnboundedReceiver<Change>,
        mut alarms: Alarms,
        stop: CancellationToken,
    ) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(up) = self.wheel.next() => self.up(up.into_inner()),
                Some(finished) = self.running.join_next() => match finished {
                    Ok((bucket, turn, ran)) => {
                        self.long_runs -= usize::from(turn == Turn::Backlog);
                        self.finished(bucket, ran);
                    }
                    // A defect: better to die and be replaced than to forget a bucket.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                Some(change) = changes.recv() => self.change(change),
                Some(alarm) = alarms.next() => self.alarm(alarm),
                () = self.pool.clock_jumped.notified() => self.look_at_all(),
            }
            self.start_queued();
        }
        while self.running.join_next().await.is_some() {}
    }

    fn wait(&mut self, bucket: u16, agenda: Agenda) {
        let key = self.wheel.insert_at(bucket, agenda.next());
        self.places.insert(bucket, Place::Waiting { key, agenda });
    }

    fn up(&mut self, bucket: u16) {
        if let Some(Place::Waiting { agenda, .. }) = self.places.get(&bucket) {
            let agenda = *agenda;
            self.places.insert(bucket, Place::Queued { agenda });
            self.queue.push_timely(bucket);
        }
    }

    /// Starts what is up, as far as there is room.
    fn start_queued(&mut self) {
        let long_runs_max = self.pool.config.concurrency;
        while self.running.len() < long_runs_max * RUNS_PER_LONG_RUN {
            let Some((bucket, turn)) = self.queue.pop(self.long_runs < long_runs_max) else {
                return;
            };
            // A bucket that was lost and gained meanwhile is in the queue twice, or waits.
            if let Some(Place::Queued { agenda }) = self.places.get(&bucket) {
                let agenda = *agenda;
                self.places.insert(bucket, Place::Running { alarms: None });
                self.start(bucket, agenda, turn);
            }
        }
    }

    fn start(&mut self, bucket: u16, agenda: Agenda, turn: Turn) {
        let pool = Arc::clone(&self.pool);
        let limits = Limits::of(&pool.config);
        let limits = match turn {
            Turn::Timely => limits.min(TIMELY_LIMITS),
            Turn::Backlog => limits,
        };
        self.long_runs += usize::from(turn == Turn::Backlog);
        self.running.spawn(async move {
            let ran = run_once(&pool, bucket, agenda, limits).await;
            (bucket, turn, ran)
        });
    }

    fn finished(&mut self, bucket: u16, ran: Result<Ran, StoreError>) {
        let Some(Place::Running { alarms }) = self.places.get(&bucket) else {
            return;
        };
        let alarms = *alarms;
        let agenda = match ran {
            Ok(Ran::Leading(agenda)) => agenda,
            Ok(Ran::NotLeading) => {
                self.pool.doubt(bucket);
                Agenda::all_now(Instant::now() + self.pool.config.retry_pause)
            }
            Err(error) => {
                self.pool.measures.failed();
                tracing::debug!(%error, bucket, "run failed");
                Agenda::all_now(Instant::now() + self.pool.config.retry_pause)
            }
        };
        let agenda = alarms.map_or(agenda, |alarms| agenda.merged(alarms));
        if agenda.next() <= Instant::now() {
            self.places.insert(bucket, Place::Queued { agenda });
            self.queue.push_backlog(bucket);
        } else {
            self.wait(bucket, agenda);
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Gained(bucket) => {
                if !self.places.contains_key(&bucket) {
                    self.wait(bucket, Agenda::all_now(Instant::now()));
                }
            }
            Change::Lost(bucket) => {
                if let Some(Place::Waiting { key, .. }) = self.places.remove(&bucket) {
                    self.wheel.remove(&key);
                }
            }
        }
    }

    fn alarm(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Earlier {
                bucket,
                verb,
                in_ms,
            } => {
                let at = Instant::now() + Duration::from_millis(in_ms);
                self.look_at(bucket, Agenda::nothing(&self.pool.config).with(verb, at));
            }
            Alarm::RosterChanged => self.pool.look_again.notify_one(),
            Alarm::Resubscribed => {
                self.pool.look_again.notify_one();
                self.look_at_all();
            }
        }
    }

    fn look_at_all(&mut self) {
        let everything = Agenda::all_now(Instant::now());
        let buckets: Vec<u16> = self.places.keys().copied().collect();
        for bucket in buckets {
            self.look_at(bucket, everything);
        }
    }

    /// Looks at a bucket as this agenda says, where that is earlier than planned.
    fn look_at(&mut self, bucket: u16, alarms: Agenda) {
        match self.places.get_mut(&bucket) {
            Some(Place::Waiting { key, agenda }) => {
                let planned_at = agenda.next();
                *agenda = agenda.merged(alarms);
                if agenda.next() < planned_at {
                    self.wheel.reset_at(key, agenda.next());
                }
            }
            Some(Place::Queued { agenda }) => *agenda = agenda.merged(alarms),
            Some(Place::Running { alarms: earlier }) => {
                *earlier = Some(earlier.map_or(alarms, |earlier| earlier.merged(alarms)));
            }
            None => {}
        }
    }
}
