//! Schedules the buckets that this instance leads. A timing wheel holds the next due time of each bucket.
//!
//! A bucket is waiting in the wheel, queued or running (`bucket_states.rs`). An alarm makes a bucket due earlier.
//! During a run it is stored until the run has ended, because the run may have read Redis before the timer was set.
//!
//! A bucket that has become due has priority over a bucket that has just run and has more due jobs, its backlog: a
//! bucket with a million due jobs must not delay the single job of another one, or of another queue. One run in four is
//! for a backlog, so that backlogs always make progress. The first run of a due bucket is short: if a hundred buckets
//! are due at the same time, each of them runs once before the first one runs again. Short runs barely load Redis, so
//! many may run at the same time. A pump that takes over runs all of its buckets at once, and would otherwise mostly
//! wait for the network.

use std::sync::Arc;
use std::time::Duration;

use tidegate_daemon::LogLimit;
use tidegate_store::{Alarm, Messages, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::bucket::{CallSchedule, RunLimits, run_once, time_left};
use crate::bucket_states::{BucketStates, StartedRun};
use crate::instance::Instance;
use crate::leases::LeaseChange;
use crate::run_queue::RunKind;

/// Limits of the first run of a due bucket; the rest is its backlog. A hundred such runs that only move jobs take
/// Redis about 30 ms.
const TIMELY_LIMITS: RunLimits = RunLimits {
    moved: 32,
    loaded: 64,
    swept: 1,
    published: 32,
};

pub(crate) struct Scheduler {
    instance: Arc<Instance>,
    buckets: BucketStates,
    running: JoinSet<(StartedRun, Result<Option<CallSchedule>, StoreError>)>,
}

impl Scheduler {
    pub(crate) fn new(instance: Arc<Instance>) -> Self {
        let buckets = BucketStates::new(instance.config.concurrency, instance.config.retry_pause);
        Self {
            instance,
            buckets,
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
            let retry_at = self.buckets.next_retry_at();
            tokio::select! {
                () = stop.cancelled() => break,
                Some(bucket) = self.buckets.next_due() => {
                    let server = self.instance.store.server_of(bucket);
                    self.buckets.queue_due(bucket, server);
                }
                Some(finished) = self.running.join_next() => match finished {
                    Ok((started, outcome)) => self.finished(&started, outcome),
                    // A panic is passed on: a bucket without a run would be forgotten, and a restart recovers it.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                Some(change) = changes.recv() => self.change(change),
                Some(alarm) = alarms.next() => self.alarm(alarm),
                () = self.instance.clock_jumped.notified() => self.schedule_all(),
                () = at(retry_at) => {}
            }
            self.start_queued();
        }
        while self.running.join_next().await.is_some() {}
    }

    /// Starts queued runs while there is capacity.
    fn start_queued(&mut self) {
        while let Some((started, schedule)) = self.buckets.start(Instant::now()) {
            let instance = Arc::clone(&self.instance);
            let limits = RunLimits::of(&instance.config);
            let limits = match started.run.kind {
                RunKind::Timely => limits.min(TIMELY_LIMITS),
                RunKind::Backlog => limits,
            };
            self.running.spawn(async move {
                let outcome = run_once(&instance, started.run.bucket, schedule, limits).await;
                (started, outcome)
            });
        }
    }

    fn finished(
        &mut self,
        started: &StartedRun,
        outcome: Result<Option<CallSchedule>, StoreError>,
    ) {
        let bucket = started.run.bucket;
        let is_away = matches!(outcome, Err(StoreError::Unavailable { .. }));
        if !self.buckets.end(started, is_away) {
            return;
        }
        let retry_at = Instant::now() + self.instance.config.retry_pause;
        let schedule = match outcome {
            Ok(Some(schedule)) => schedule,
            Ok(None) => {
                self.instance.doubt(bucket);
                CallSchedule::all_now(retry_at)
            }
            Err(error) => {
                self.instance.measures.failed();
                log_failed_run(bucket, is_away, &error);
                // `ServerQueues` delays the retry of a bucket whose server is unavailable.
                CallSchedule::all_now(if is_away { Instant::now() } else { retry_at })
            }
        };
        let server = self.instance.store.server_of(bucket);
        self.buckets.reschedule(bucket, schedule, server);
    }

    fn change(&mut self, change: LeaseChange) {
        match change {
            LeaseChange::Gained(bucket) => {
                let schedule = CallSchedule::all_now(Instant::now());
                self.buckets.add(bucket, schedule);
            }
            LeaseChange::Lost(bucket) => self.buckets.remove(bucket),
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
                self.buckets.alarm(bucket, schedule);
            }
            Alarm::RosterChanged => {
                self.instance.roster_changed.send_replace(());
            }
            Alarm::LockTaken { bucket, from } if from == self.instance.token => {
                // The other pump may not be known here either.
                self.instance.roster_changed.send_replace(());
                self.instance.doubt(bucket);
            }
            Alarm::LockTaken { .. } => {}
            Alarm::Resubscribed => {
                self.instance.roster_changed.send_replace(());
                let store = &self.instance.store;
                self.buckets.requeue(|bucket| store.server_of(bucket));
                self.schedule_all();
            }
        }
    }

    fn schedule_all(&mut self) {
        let everything = CallSchedule::all_now(Instant::now());
        for bucket in self.buckets.all() {
            self.buckets.alarm(bucket, everything);
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

/// Logs why a run failed. `/readyz` and its log lines tell of a server that is away, so such a run is logged at level
/// debug.
fn log_failed_run(bucket: u16, is_away: bool, error: &StoreError) {
    static LOG_LIMIT: LogLimit = LogLimit::every(Duration::from_secs(1));
    if is_away || !LOG_LIMIT.is_due() {
        tracing::debug!(%error, bucket, "failed to run a bucket");
    } else {
        tracing::warn!(
            %error, bucket,
            "failed to run a bucket: its jobs are late; further failures within a second are logged at level debug"
        );
    }
}
