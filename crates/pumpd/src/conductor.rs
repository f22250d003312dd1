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
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::bucket::{Agenda, Limits, Ran, run_once};
use crate::leases::Change;
use crate::pump::Pool;
use crate::run_queue::Turn;
use crate::servers::{Address, Begun, Servers};

/// What a bucket does when its moment has come; what is left is a backlog. A hundred such runs that only
/// move take Redis about 30 ms.
const TIMELY_LIMITS: Limits = Limits {
    moved: 32,
    loaded: 64,
    swept: 1,
};

enum Place {
    /// In the wheel.
    Waiting { key: Key, agenda: Agenda },
    /// Up, but as many buckets are running as may.
    Queued { agenda: Agenda },
    /// Running. `alarms` is what came meanwhile.
    Running { alarms: Option<Agenda> },
}

/// A run that is over.
struct Finished {
    bucket: u16,
    turn: Turn,
    server: Address,
    ran: Result<Ran, StoreError>,
}

pub(crate) struct Conductor {
    pool: Arc<Pool>,
    wheel: DelayQueue<u16>,
    servers: Servers,
    places: HashMap<u16, Place>,
    running: JoinSet<Finished>,
}

impl Conductor {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        let servers = Servers::new(pool.config.concurrency, pool.config.retry_pause);
        Self {
            pool,
            wheel: DelayQueue::new(),
            servers,
            places: HashMap::new(),
            running: JoinSet::new(),
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
                    Ok(finished) => self.finished(finished),
                    // A defect: better to die and be replaced than to forget a bucket.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                Some(change) = changes.recv() => self.change(change),
                Some(alarm) = alarms.next() => self.alarm(alarm),
                () = self.pool.clock_jumped.notified() => self.look_at_all(),
                () = at(self.servers.next_retry_at()) => {}
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
            self.enqueue(bucket, agenda, Turn::Timely);
        }
    }

    fn enqueue(&mut self, bucket: u16, agenda: Agenda, turn: Turn) {
        self.places.insert(bucket, Place::Queued { agenda });
        self.servers
            .push(self.pool.store.server_of(bucket), bucket, turn);
    }

    /// Starts what is up, as far as there is room.
    fn start_queued(&mut self) {
        while let Some(begun) = self.servers.pop(Instant::now()) {
            // A bucket that was lost and gained meanwhile is in the queue twice, or waits.
            let Begun {
                bucket,
                turn,
                server,
            } = begun;
            match self.places.get(&bucket) {
                Some(Place::Queued { agenda }) => {
                    let agenda = *agenda;
                    self.places.insert(bucket, Place::Running { alarms: None });
                    self.start(bucket, agenda, turn, server);
                }
                _ => self.servers.dropped(&server, turn),
            }
        }
    }

    fn start(&mut self, bucket: u16, agenda: Agenda, turn: Turn, server: Address) {
        let pool = Arc::clone(&self.pool);
        let limits = Limits::of(&pool.config);
        let limits = match turn {
            Turn::Timely => limits.min(TIMELY_LIMITS),
            Turn::Backlog => limits,
        };
        self.running.spawn(async move {
            let ran = run_once(&pool, bucket, agenda, limits).await;
            Finished {
                bucket,
                turn,
                server,
                ran,
            }
        });
    }

    fn finished(&mut self, finished: Finished) {
        let Finished {
            bucket,
            turn,
            server,
            ran,
        } = finished;
        let is_away = matches!(ran, Err(StoreError::Unavailable { .. }));
        self.servers.ended(&server, turn, is_away);
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
                match is_away {
                    // Its server decides when it is tried again.
                    true => Agenda::all_now(Instant::now()),
                    false => Agenda::all_now(Instant::now() + self.pool.config.retry_pause),
                }
            }
        };
        let agenda = alarms.map_or(agenda, |alarms| agenda.merged(alarms));
        if agenda.next() <= Instant::now() {
            let turn = if is_away { turn } else { Turn::Backlog };
            self.enqueue(bucket, agenda, turn);
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
            Alarm::RosterChanged => {
                self.pool.roster_changed.send_replace(());
            }
            Alarm::Resubscribed => {
                self.pool.roster_changed.send_replace(());
                self.sort_queued();
                self.look_at_all();
            }
        }
    }

    /// Buckets may be on other servers than when they were queued.
    fn sort_queued(&mut self) {
        for (bucket, turn) in self.servers.take_queued() {
            let server = self.pool.store.server_of(bucket);
            self.servers.push(server, bucket, turn);
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

/// Waits until then; for ever if there is no such moment.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
