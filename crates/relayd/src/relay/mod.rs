//! A relay: reserves jobs, delivers them, and reports what became of them.
//!
//! ```text
//!  reserve loop ──jobs──► deliveries ──settlements──► settler ──► source
//!      ▲                      │
//!      └── circuit breaker ◄──┘
//! ```

mod delivery;
mod held_jobs;
mod settler;
mod spans;
mod state;

use std::sync::Arc;
use std::time::Duration;

use tidegate_daemon::traces::Traces;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use state::RelayState;

use crate::circuit_breaker::BreakerPermit;
use crate::job::RelayJob;
use crate::sinks::RelaySink;
use crate::sources::{RelaySource, SourceError, SourceJobs};
use delivery::DeliveryRun;
use held_jobs::HeldJobs;
use settler::{SettledDelivery, settle_all};

/// The pause after a call to the source that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long a stop waits for the answer to a call that reserves jobs. A source that has jobs answers at once; jobs
/// in an unread answer would be lost until the leases expire.
const LAST_ANSWER: Duration = Duration::from_millis(500);

/// The ends of a relay, and its limits.
#[derive(Clone)]
pub(crate) struct Relay {
    pub(crate) source: Arc<dyn RelaySource>,
    pub(crate) sink: Arc<dyn RelaySink>,
    pub(crate) state: Arc<RelayState>,
    /// Jobs that are held at a time.
    pub(crate) concurrency: usize,
    /// Jobs of one call to the sink.
    pub(crate) batch: usize,
    /// How long one call to the sink may take.
    pub(crate) time_limit: Duration,
    /// Where spans go, if there is a collector.
    pub(crate) traces: Option<Traces>,
}

impl Relay {
    /// Passes jobs on until `stop`, then waits for the deliveries in flight: after a stop of the process up to `grace`.
    pub(crate) async fn run(
        self,
        stop: CancellationToken,
        process_stop: CancellationToken,
        grace: Duration,
    ) {
        // The relay that this one replaces had the same gauge, and its breaker may have been open.
        self.state.metrics.breaker_open.set(0);
        let (settlements, receiver) = mpsc::channel(self.concurrency);
        let settler = tokio::spawn(settle_all(
            Arc::clone(&self.source),
            Arc::clone(&self.state),
            receiver,
        ));
        let deliveries = TaskTracker::new();
        tracing::info!(
            relay = self.state.name,
            source = self.state.source,
            sink = self.state.sink,
            "relay started"
        );
        self.reserve_until_stopped(&stop, &deliveries, settlements)
            .await;
        deliveries.close();
        let name = &self.state.name;
        let settled = async {
            deliveries.wait().await;
            // It ends when all senders are gone.
            let _ = settler.await;
        };
        let stopped = async {
            // The limit of time of the sink ends all deliveries of a relay that is replaced or removed.
            process_stop.cancelled().await;
            sleep(grace).await;
        };
        let is_settled = tokio::select! {
            () = settled => true,
            () = stopped => false,
        };
        if !is_settled {
            let held = self.state.metrics.held.get();
            tracing::warn!(
                relay = name,
                held,
                "stopped with jobs in flight; they are delivered again when their leases expire"
            );
        } else {
            tracing::info!(relay = name, "relay stopped");
        }
    }

    async fn reserve_until_stopped(
        &self,
        stop: &CancellationToken,
        deliveries: &TaskTracker,
        settlements: mpsc::Sender<SettledDelivery>,
    ) {
        let room = Arc::new(Semaphore::new(self.concurrency));
        while !stop.is_cancelled() {
            let permit = self.state.breaker.permit(Instant::now());
            let most = match permit {
                BreakerPermit::Flow => self.concurrency,
                BreakerPermit::Probe => 1,
                BreakerPermit::Wait(until) => {
                    stop.run_until_cancelled(sleep_until(until)).await;
                    continue;
                }
            };
            let Some(Ok(first)) = stop
                .run_until_cancelled(Arc::clone(&room).acquire_owned())
                .await
            else {
                return;
            };
            // No other task takes room, so this much stays free.
            let most = most.min(room.available_permits() + 1);
            let jobs = match self.reserve(most, stop).await {
                Some(Ok(reserved)) => {
                    if self.state.source_answered() {
                        tracing::info!(relay = self.state.name, "jobs can be reserved again");
                    }
                    self.report_unreadable(&reserved.unreadable);
                    reserved.jobs
                }
                Some(Err(error)) => {
                    self.reserve_failed(&error);
                    drop(first);
                    stop.run_until_cancelled(sleep(RETRY_PAUSE)).await;
                    continue;
                }
                None => return,
            };
            drop(first);
            if jobs.is_empty() && permit == BreakerPermit::Probe {
                // Nothing waits for the sink, and whether it is available is not known.
                self.state.metrics.breaker_open.set(0);
            }
            let started = self.start_deliveries(jobs, &room, deliveries, &settlements, stop);
            if permit == BreakerPermit::Probe {
                for delivery in started {
                    let _ = delivery.await;
                }
            }
        }
    }

    /// `None` if a stop was requested meanwhile, and the call can be dropped.
    async fn reserve(
        &self,
        most: usize,
        stop: &CancellationToken,
    ) -> Option<Result<SourceJobs, SourceError>> {
        let reserving = self.source.reserve(most);
        if !self.source.can_release() {
            return Some(reserving.await);
        }
        let stopped = async {
            stop.cancelled().await;
            sleep(LAST_ANSWER).await;
        };
        tokio::select! {
            biased;
            answer = reserving => Some(answer),
            () = stopped => None,
        }
    }

    fn reserve_failed(&self, error: &SourceError) {
        self.state.metrics.reserve_errors.inc();
        if self.state.source_failed(&format!("source: {error}")) {
            tracing::warn!(relay = self.state.name, %error, "failed to reserve jobs; retrying each second");
        }
    }

    fn report_unreadable(&self, unreadable: &[SourceError]) {
        for error in unreadable {
            self.state.metrics.reserve_errors.inc();
            self.state.set_error(&format!("source: {error}"));
            tracing::warn!(relay = self.state.name, %error, "failed to read a job; it stays in the source");
        }
    }

    fn start_deliveries(
        &self,
        jobs: Vec<RelayJob>,
        room: &Arc<Semaphore>,
        deliveries: &TaskTracker,
        settlements: &mpsc::Sender<SettledDelivery>,
        stop: &CancellationToken,
    ) -> Vec<tokio::task::JoinHandle<()>> {
        let size = self.batch.min(self.sink.batch_max()).max(1);
        let mut started = Vec::new();
        let mut jobs = jobs.into_iter().peekable();
        while jobs.peek().is_some() {
            let jobs: Vec<RelayJob> = jobs.by_ref().take(size).collect();
            let held = HeldJobs::new(&self.state, room, jobs.len());
            let delivery = DeliveryRun {
                source: Arc::clone(&self.source),
                sink: Arc::clone(&self.sink),
                state: Arc::clone(&self.state),
                settlements: settlements.clone(),
                stop: stop.clone(),
                time_limit: self.time_limit,
                traces: self.traces.clone(),
            };
            started.push(deliveries.spawn(delivery.run(jobs, held)));
        }
        started
    }
}
