//! Reserves jobs as slots become free, and starts their handlers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::limits::RESERVE_JOBS_MAX;
use tidegate_core::v1::consume::{LeasedJobView, ReserveAnswer, ReserveBody};
use tidegate_core::v1::values::{MaxJobs, Timestamp};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, sleep_until};

use super::execution::{RunContext, run_job};
use super::job::Job;
use super::leases::HeldLease;
use crate::client::Client;
use crate::error::{Error, RepeatSafety};
use crate::repeat::{RepeatDelays, RepeatLimits};
use crate::transport::HttpCall;

const DELAYS: RepeatLimits =
    RepeatLimits::endless(Duration::from_millis(100), Duration::from_secs(5));
/// The most reserve requests in flight.
const CALLS_MAX: usize = 4;
/// An empty answer that comes earlier than the wait is followed by this pause.
const EMPTY_PAUSE: Duration = Duration::from_millis(50);
/// How long a stop waits for the answers to reserve requests. A server that has no job does not answer.
const LAST_ANSWERS: Duration = Duration::from_millis(250);
/// How long a stop waits for handlers that were aborted. One that blocks its thread does not notice.
const ABORT_LIMIT: Duration = Duration::from_secs(1);

/// The answer to a reserve request for so many jobs.
#[derive(Debug)]
struct Reserved {
    requested: usize,
    took: Duration,
    answer: Result<ReserveAnswer, Error>,
}

/// Reserves and runs jobs.
#[derive(Debug)]
pub(super) struct ReserveLoop {
    client: Client,
    context: Arc<RunContext>,
    request: ReserveBody,
    concurrency: usize,
    /// The most jobs that wait for a slot.
    prefetch: usize,
    /// Jobs that wait for a slot, with their numbers in the table of leases.
    waiting: VecDeque<(Job, u64)>,
    calls: JoinSet<Reserved>,
    /// The jobs that the calls in flight may return.
    requested: usize,
    runs: JoinSet<()>,
    /// Whether the last answer had as many jobs as requested: there are probably more.
    is_busy: bool,
    delays: RepeatDelays,
    not_before: Option<Instant>,
}

impl ReserveLoop {
    pub(super) fn new(
        client: Client,
        context: Arc<RunContext>,
        request: ReserveBody,
        (concurrency, prefetch): (usize, usize),
    ) -> Self {
        Self {
            client,
            context,
            request,
            concurrency,
            prefetch,
            waiting: VecDeque::new(),
            calls: JoinSet::new(),
            requested: 0,
            runs: JoinSet::new(),
            is_busy: false,
            delays: DELAYS.delays(),
            not_before: None,
        }
    }

    /// Runs jobs until `stop` is ready, or the server rejects the requests of the worker.
    pub(super) async fn run(&mut self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        tokio::pin!(stop);
        loop {
            self.request_more();
            let pause = self.not_before.map(tokio::time::Instant::from_std);
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                Some(reserved) = self.calls.join_next() => self.take(reserved)?,
                Some(_) = self.runs.join_next() => {}
                () = sleep_until(pause.unwrap_or_else(tokio::time::Instant::now)), if pause.is_some() => {
                    self.not_before = None;
                }
            }
            while self.runs.try_join_next().is_some() {}
            self.start_waiting();
        }
    }

    /// Sends a reserve request if there is room for jobs. While the queues have more jobs than room, several are in
    /// flight.
    fn request_more(&mut self) {
        if self.not_before.is_some() {
            return;
        }
        let room = self.concurrency + self.prefetch;
        let held = self.runs.len() + self.waiting.len();
        let free = room.saturating_sub(held + self.requested);
        let is_quarter = free >= room.div_ceil(4);
        let may_add = self.is_busy && is_quarter && self.calls.len() < CALLS_MAX;
        if free == 0 || !(self.calls.is_empty() || may_add) {
            return;
        }
        let requested = free.min(usize::from(RESERVE_JOBS_MAX));
        let mut request = self.request.clone();
        request.max_jobs = MaxJobs::try_from(requested as u64).unwrap_or_default();
        self.requested += requested;
        self.calls
            .spawn(reserve(self.client.clone(), request, requested));
    }

    fn take(&mut self, reserved: Result<Reserved, JoinError>) -> Result<(), Error> {
        // The task neither panics nor is aborted.
        let Ok(reserved) = reserved else {
            return Ok(());
        };
        self.requested -= reserved.requested;
        match reserved.answer {
            Ok(answer) => {
                self.is_busy = answer.jobs.len() >= reserved.requested;
                self.delays = DELAYS.delays();
                let wait = Duration::from_millis(self.request.wait.as_ms());
                if answer.jobs.is_empty() && reserved.took < (wait / 2).max(EMPTY_PAUSE) {
                    self.not_before = Some(Instant::now() + EMPTY_PAUSE);
                }
                for (view, length) in leased(answer) {
                    let held = self.hold(view, length);
                    self.waiting.push_back(held);
                }
                Ok(())
            }
            Err(error) if error.is_temporary() || matches!(error, Error::Decode { .. }) => {
                let delay = self.delays.next_after(&error);
                let delay = delay.unwrap_or(RepeatLimits::RETRY_AFTER_MAX);
                tracing::warn!("failed to reserve jobs: error={error}; repeating it in {delay:?}");
                self.not_before = Some(Instant::now() + delay);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn hold(&self, view: LeasedJobView, length: Duration) -> (Job, u64) {
        let job = Job::new(view, Arc::clone(&self.context.data));
        let lease = HeldLease::new(job.clone(), length);
        let number = self.context.leases.insert(lease);
        (job, number)
    }

    /// Starts the handlers of jobs that wait, as long as slots are free.
    fn start_waiting(&mut self) {
        while self.runs.len() < self.concurrency {
            let Some((job, number)) = self.waiting.pop_front() else {
                return;
            };
            if self.context.leases.start(number, self.context.max_run) {
                let context = Arc::clone(&self.context);
                self.runs.spawn(run_job(context, job, number));
            } else {
                // Another worker has the job.
                self.context.leases.lost(number);
            }
        }
    }

    /// Gives back the jobs that wait for a slot.
    async fn give_back_waiting(&mut self) {
        for (_, number) in std::mem::take(&mut self.waiting) {
            if let Some(lease) = self.context.leases.remove(number) {
                self.context.give_back(&lease).await;
            }
        }
    }

    /// Waits up to `grace` for the handlers, and gives back the jobs of handlers that have not ended, and jobs that
    /// still arrive.
    pub(super) async fn stop(&mut self, grace: Duration) {
        self.give_back_waiting().await;
        tokio::join!(
            give_back_last_jobs(&mut self.calls, &self.context),
            end_runs(&mut self.runs, grace),
        );
        self.runs.abort_all();
        let ended = end_runs(&mut self.runs, ABORT_LIMIT).await;
        if !ended {
            tracing::warn!("handlers block their threads; their jobs are given back all the same");
        }
        for lease in self.context.leases.drain() {
            self.context.give_back(&lease).await;
        }
    }
}

/// Waits for all runs to end; returns whether they have.
async fn end_runs(runs: &mut JoinSet<()>, limit: Duration) -> bool {
    let ending = async { while runs.join_next().await.is_some() {} };
    tokio::time::timeout(limit, ending).await.is_ok()
}

/// Gives back the jobs of answers that arrive after the stop. The server gives back jobs that it cannot deliver because
/// the connection is closed.
async fn give_back_last_jobs(calls: &mut JoinSet<Reserved>, context: &RunContext) {
    let answers = async {
        while let Some(reserved) = calls.join_next().await {
            let answer = reserved.ok().and_then(|reserved| reserved.answer.ok());
            for (view, length) in answer.into_iter().flat_map(leased) {
                let job = Job::new(view, Arc::clone(&context.data));
                let lease = HeldLease::new(job, length);
                context.give_back(&lease).await;
            }
        }
    };
    tokio::select! {
        () = answers => {}
        () = sleep(LAST_ANSWERS) => {}
    }
    calls.abort_all();
}

/// The jobs of an answer, and the lengths of their leases.
fn leased(answer: ReserveAnswer) -> impl Iterator<Item = (LeasedJobView, Duration)> {
    let now = answer.now.map_or(0, Timestamp::as_ms);
    answer.jobs.into_iter().map(move |job| {
        let ms = job.lease_until.as_ms().saturating_sub(now);
        (job, Duration::from_millis(ms))
    })
}

async fn reserve(client: Client, request: ReserveBody, requested: usize) -> Reserved {
    let begin = Instant::now();
    let answer = async {
        let call = HttpCall::reserve(&request)?;
        client
            .transport
            .send(&call, RepeatSafety::Repeatable)
            .await?
            .json()
    };
    let answer = answer.await;
    Reserved {
        requested,
        took: begin.elapsed(),
        answer,
    }
}
