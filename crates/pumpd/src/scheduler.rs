//! Schedules the buckets that this instance leads. A timing wheel holds the next due time of each bucket.
//!
//! A bucket is waiting in the wheel, queued or running. An alarm makes a waiting bucket due earlier. During a run it is
//! stored until the run has ended, because the run may have read Redis before the timer was set.
//!
//! A bucket that has become due has priority over one that has just run and has more due jobs, its backlog: a bucket
//! with a million due jobs must not delay the single job of another one. One run in four is for a backlog, so that
//! backlogs always make progress. The first run of a due bucket is short: if a hundred buckets are due at the same
//! time, each of them runs once before the first one runs again. Short runs barely load Redis, so many may run at the
//! same time. A pump that takes over runs all of its buckets at once, and would otherwise mostly wait for the network.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidegate_store::{Alarm, Messages, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::bucket::{CallSchedule, RunLimits, run_once, time_left};
use crate::instance::Instance;
use crate::leases::LeaseChange;
use crate::run_queue::RunKind;
use crate::server_queues::{BucketRun, ServerQueues};

/// Limits of the first run of a due bucket; what is left is its backlog. A hundred such runs that only move jobs take
/// Redis about 30 ms.
const TIMELY_LIMITS: RunLimits = RunLimits {
    moved: 32,
    loaded: 64,
    swept: 1,
    published: 4,
};

enum BucketState {
    /// In the wheel.
    Waiting { key: Key, schedule: CallSchedule },
    /// Due, but no run can start yet.
    Queued { schedule: CallSchedule },
    /// Running. `alarms` combines the alarms during the run.
    Running { alarms: Option<CallSchedule> },
}

pub(crate) struct Scheduler {
    instance: Arc<Instance>,
    wheel: DelayQueue<u16>,
    servers: ServerQueues,
    states: HashMap<u16, BucketState>,
    running: JoinSet<(BucketRun, Result<Option<CallSchedule>, StoreError>)>,
}

impl Scheduler {
    pub(crate) fn new(instance: Arc<Instance>) -> Self {
        let servers = ServerQueues::new(instance.config.concurrency, instance.config.retry_pause);
        Self {
            instance,
            wheel: DelayQueue::new(),
            servers,
            states: HashMap::new(),
            running: JoinSet::new(),
        }
    }

    /// Runs buckets until `stop`, then waits for the runs in progress.
    pub(crate) async fn run(
        mut self,
        mut changes: mpsc::UnboundedReceiver<LeaseChange>,
        mut alarms: Messages<Alarm>,
        stop: CancellationToken,
    ) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(up) = self.wheel.next() => self.queue_due(up.into_inner()),
                Some(finished) = self.running.join_next() => match finished {
                    Ok((run, outcome)) => self.finished(&run, outcome),
                    // A panic is passed on: a bucket without a run would be forgotten, and a restart recovers it.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                Some(change) = changes.recv() => self.change(change),
                Some(alarm) = alarms.next() => self.alarm(alarm),
                () = self.instance.clock_jumped.notified() => self.schedule_all(),
                () = at(self.servers.next_retry_at()) => {}
            }
            self.start_queued();
        }
        while self.running.join_next().await.is_some() {}
    }

    fn wait(&mut self, bucket: u16, schedule: CallSchedule) {
        let key = self.wheel.insert_at(bucket, schedule.next());
        self.states
            .insert(bucket, BucketState::Waiting { key, schedule });
    }

    fn queue_due(&mut self, bucket: u16) {
        if let Some(&BucketState::Waiting { schedule, .. }) = self.states.get(&bucket) {
            self.enqueue(bucket, schedule, RunKind::Timely);
        }
    }

    fn enqueue(&mut self, bucket: u16, schedule: CallSchedule, kind: RunKind) {
        self.states.insert(bucket, BucketState::Queued { schedule });
        self.servers
            .push(self.instance.store.server_of(bucket), bucket, kind);
    }

    /// Starts queued runs while there is capacity.
    fn start_queued(&mut self) {
        while let Some(run) = self.servers.pop(Instant::now()) {
            // A bucket that was lost and gained again may be queued twice, or be waiting.
            match self.states.get(&run.bucket) {
                Some(&BucketState::Queued { schedule }) => {
                    let state = BucketState::Running { alarms: None };
                    self.states.insert(run.bucket, state);
                    self.start(run, schedule);
                }
                _ => self.servers.cancel_run(&run),
            }
        }
    }

    fn start(&mut self, run: BucketRun, schedule: CallSchedule) {
        let instance = Arc::clone(&self.instance);
        let limits = RunLimits::of(&instance.config);
        let limits = match run.kind {
            RunKind::Timely => limits.min(TIMELY_LIMITS),
            RunKind::Backlog => limits,
        };
        self.running.spawn(async move {
            let outcome = run_once(&instance, run.bucket, schedule, limits).await;
            (run, outcome)
        });
    }

    fn finished(&mut self, run: &BucketRun, outcome: Result<Option<CallSchedule>, StoreError>) {
        let bucket = run.bucket;
        let is_away = matches!(outcome, Err(StoreError::Unavailable { .. }));
        self.servers.ended(run, is_away);
        let Some(&BucketState::Running { alarms }) = self.states.get(&bucket) else {
            return;
        };
        let retry_at = Instant::now() + self.instance.config.retry_pause;
        let schedule = match outcome {
            Ok(Some(schedule)) => schedule,
            Ok(None) => {
                self.instance.doubt(bucket);
                CallSchedule::all_now(retry_at)
            }
            Err(error) => {
                self.instance.measures.failed();
                tracing::debug!(%error, bucket, "failed to run a bucket");
                // `ServerQueues` delays the retry of a bucket whose server is unavailable.
                CallSchedule::all_now(if is_away { Instant::now() } else { retry_at })
            }
        };
        let schedule = alarms.map_or(schedule, |alarms| schedule.merged(alarms));
        if schedule.next() <= Instant::now() {
            let kind = if is_away { run.kind } else { RunKind::Backlog };
            self.enqueue(bucket, schedule, kind);
        } else {
            self.wait(bucket, schedule);
        }
    }

    fn change(&mut self, change: LeaseChange) {
        match change {
            LeaseChange::Gained(bucket) => {
                if !self.states.contains_key(&bucket) {
                    self.wait(bucket, CallSchedule::all_now(Instant::now()));
                }
            }
            LeaseChange::Lost(bucket) => {
                if let Some(BucketState::Waiting { key, .. }) = self.states.remove(&bucket) {
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
                sent_at_ms,
            } => {
                let passed = self.instance.store.passed_since(bucket, sent_at_ms);
                let at = Instant::now() + time_left(Duration::from_millis(in_ms), passed);
                let schedule = CallSchedule::after_sleep_max(&self.instance.config).with(verb, at);
                self.schedule(bucket, schedule);
            }
            Alarm::RosterChanged => {
                self.instance.roster_changed.send_replace(());
            }
            Alarm::Resubscribed => {
                self.instance.roster_changed.send_replace(());
                self.requeue();
                self.schedule_all();
            }
        }
    }

    /// Queues the queued buckets again, since they may have moved to other servers.
    fn requeue(&mut self) {
        for (bucket, kind) in self.servers.take_queued() {
            let server = self.instance.store.server_of(bucket);
            self.servers.push(server, bucket, kind);
        }
    }

    fn schedule_all(&mut self) {
        let everything = CallSchedule::all_now(Instant::now());
        let buckets: Vec<u16> = self.states.keys().copied().collect();
        for bucket in buckets {
            self.schedule(bucket, everything);
        }
    }

    /// Schedules a bucket as in this agenda, where that is earlier than planned.
    fn schedule(&mut self, bucket: u16, alarms: CallSchedule) {
        match self.states.get_mut(&bucket) {
            Some(BucketState::Waiting { key, schedule }) => {
                let planned_at = schedule.next();
                *schedule = schedule.merged(alarms);
                if schedule.next() < planned_at {
                    self.wheel.reset_at(key, schedule.next());
                }
            }
            Some(BucketState::Queued { schedule }) => *schedule = schedule.merged(alarms),
            Some(BucketState::Running { alarms: earlier }) => {
                *earlier = Some(earlier.map_or(alarms, |earlier| earlier.merged(alarms)));
            }
            None => {}
        }
    }
}

/// Waits until this time; for ever if there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
