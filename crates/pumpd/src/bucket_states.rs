//! Which buckets wait, are queued and run. Pure but for the timing wheel, which uses the clock of the runtime.
//!
//! A bucket has at most one place in the queue of backlogs of its server. It keeps it when it becomes due meanwhile,
//! and is run for that first. A place whose bucket has no backlog any more is dropped when it comes up.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::bucket::CallSchedule;
use crate::run_queue::RunKind;
use crate::server_queues::{BucketRun, ServerAddress, ServerQueues};

/// The buckets that this instance leads.
pub(crate) struct BucketStates {
    wheel: DelayQueue<u16>,
    servers: ServerQueues,
    buckets: HashMap<u16, Bucket>,
    next_run: u64,
}

struct Bucket {
    /// Whether it has a place in the queue of backlogs.
    in_backlog: bool,
    state: BucketState,
}

enum BucketState {
    /// No call is due, or a backlog waits for its turn. In the wheel for its next due time.
    Waiting {
        due_key: Key,
        schedule: CallSchedule,
    },
    /// Due, but no run can start yet.
    Due { schedule: CallSchedule },
    /// `alarms` combines the alarms during the run.
    Running {
        run: u64,
        alarms: Option<CallSchedule>,
    },
}

/// A run that has started. Its number tells it from earlier runs of the bucket.
#[derive(Debug)]
pub(crate) struct StartedRun {
    number: u64,
    pub(crate) run: BucketRun,
}

impl BucketStates {
    pub(crate) fn new(long_runs_max: usize, pause: Duration) -> Self {
        Self {
            wheel: DelayQueue::new(),
            servers: ServerQueues::new(long_runs_max, pause),
            buckets: HashMap::new(),
            next_run: 0,
        }
    }

    /// Adds a bucket with this schedule, unless it is there.
    pub(crate) fn add(&mut self, bucket: u16, schedule: CallSchedule) {
        if !self.buckets.contains_key(&bucket) {
            self.wait(bucket, schedule, false);
        }
    }

    /// Removes a bucket. A run in progress ends without effect.
    pub(crate) fn remove(&mut self, bucket: u16) {
        if let Some(Bucket {
            state: BucketState::Waiting { due_key, .. },
            ..
        }) = self.buckets.remove(&bucket)
        {
            self.wheel.remove(&due_key);
        }
    }

    pub(crate) fn all(&self) -> Vec<u16> {
        self.buckets.keys().copied().collect()
    }

    /// The next bucket of the wheel that becomes due; it must be queued ([`Self::queue_due`]). `None` if the wheel is
    /// empty.
    pub(crate) async fn next_due(&mut self) -> Option<u16> {
        Some(self.wheel.next().await?.into_inner())
    }

    /// When the next run that waits for a server may start.
    pub(crate) fn next_retry_at(&self) -> Option<Instant> {
        self.servers.next_retry_at()
    }

    /// Queues a bucket that has left the wheel.
    pub(crate) fn queue_due(&mut self, bucket: u16, server: ServerAddress) {
        let Some(it) = self.buckets.get_mut(&bucket) else {
            return;
        };
        if let BucketState::Waiting { schedule, .. } = it.state {
            it.state = BucketState::Due { schedule };
            self.servers.push(server, bucket, RunKind::Timely);
        }
    }

    /// The next run that may start, and its schedule.
    pub(crate) fn start(&mut self, now: Instant) -> Option<(StartedRun, CallSchedule)> {
        let buckets = &mut self.buckets;
        let run = self
            .servers
            .pop(now, |bucket, kind| claim(buckets, bucket, kind))?;
        let it = self.buckets.get_mut(&run.bucket)?;
        let number = self.next_run;
        self.next_run += 1;
        let running = BucketState::Running {
            run: number,
            alarms: None,
        };
        let schedule = match std::mem::replace(&mut it.state, running) {
            BucketState::Waiting { due_key, schedule } => {
                self.wheel.remove(&due_key);
                schedule
            }
            BucketState::Due { schedule } => schedule,
            BucketState::Running { .. } => return None,
        };
        Some((StartedRun { number, run }, schedule))
    }

    /// Ends a run. `has_failed` = its server is unavailable. Returns whether the bucket is still there, and needs its
    /// next schedule ([`Self::reschedule`]).
    #[must_use]
    pub(crate) fn end(&mut self, ended: &StartedRun, has_failed: bool) -> bool {
        self.servers.ended(&ended.run, has_failed);
        let it = self.buckets.get(&ended.run.bucket);
        it.is_some_and(
            |it| matches!(it.state, BucketState::Running { run, .. } if run == ended.number),
        )
    }

    /// Sets the schedule of a bucket whose run has ended.
    pub(crate) fn reschedule(
        &mut self,
        bucket: u16,
        schedule: CallSchedule,
        server: ServerAddress,
    ) {
        let Some(&Bucket {
            in_backlog,
            state: BucketState::Running { alarms, .. },
        }) = self.buckets.get(&bucket)
        else {
            return;
        };
        let schedule = alarms.map_or(schedule, |alarms| schedule.merged(alarms));
        if schedule.has_backlog() && !in_backlog {
            self.servers.push(server.clone(), bucket, RunKind::Backlog);
        }
        let in_backlog = in_backlog || schedule.has_backlog();
        if schedule.first() > Instant::now() {
            return self.wait(bucket, schedule, in_backlog);
        }
        let state = BucketState::Due { schedule };
        self.buckets.insert(bucket, Bucket { in_backlog, state });
        self.servers.push(server, bucket, RunKind::Timely);
    }

    /// Makes what these alarms name due earlier.
    pub(crate) fn alarm(&mut self, bucket: u16, alarms: CallSchedule) {
        match self.buckets.get_mut(&bucket).map(|it| &mut it.state) {
            Some(BucketState::Waiting { due_key, schedule }) => {
                *schedule = schedule.merged(alarms);
                if alarms.first() < self.wheel.deadline(due_key) {
                    self.wheel.reset_at(due_key, alarms.first());
                }
            }
            Some(BucketState::Due { schedule }) => *schedule = schedule.merged(alarms),
            Some(BucketState::Running {
                alarms: earlier, ..
            }) => {
                *earlier = Some(earlier.map_or(alarms, |earlier| earlier.merged(alarms)));
            }
            None => {}
        }
    }

    /// Queues the queued buckets again, since they may have moved to other servers.
    pub(crate) fn requeue(&mut self, server_of: impl Fn(u16) -> ServerAddress) {
        for (bucket, kind) in self.servers.take_queued() {
            self.servers.push(server_of(bucket), bucket, kind);
        }
    }

    fn wait(&mut self, bucket: u16, schedule: CallSchedule, in_backlog: bool) {
        let due_key = self.wheel.insert_at(bucket, schedule.first());
        let state = BucketState::Waiting { due_key, schedule };
        self.buckets.insert(bucket, Bucket { in_backlog, state });
    }
}

/// Whether an entry that leaves a queue is for a run.
fn claim(buckets: &mut HashMap<u16, Bucket>, bucket: u16, kind: RunKind) -> bool {
    let Some(it) = buckets.get_mut(&bucket) else {
        return false;
    };
    if kind == RunKind::Backlog {
        it.in_backlog = false;
    }
    match (&it.state, kind) {
        (BucketState::Due { .. }, RunKind::Timely) => true,
        (
            BucketState::Waiting { schedule, .. } | BucketState::Due { schedule },
            RunKind::Backlog,
        ) => schedule.has_backlog(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
