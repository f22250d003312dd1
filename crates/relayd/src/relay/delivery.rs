//! One call to the sink, and the consequences of its outcomes.

use std::sync::Arc;
use std::time::Duration;

use tidegate_daemon::traces::Traces;
use tokio::sync::{MutexGuard, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::held_jobs::HeldJobs;
use super::settler::{SettledDelivery, SettlementKind};
use super::spans::RelaySpans;
use super::state::RelayState;
use crate::circuit_breaker::BreakerPermit;
use crate::job::{DeliveryOutcome, RelayJob};
use crate::sinks::RelaySink;
use crate::sources::{FailedDelivery, RelaySource};

/// Delivers some jobs.
pub(super) struct DeliveryRun {
    pub(super) source: Arc<dyn RelaySource>,
    pub(super) sink: Arc<dyn RelaySink>,
    pub(super) state: Arc<RelayState>,
    pub(super) settlements: mpsc::Sender<SettledDelivery>,
    pub(super) stop: CancellationToken,
    pub(super) time_limit: Duration,
    pub(super) traces: Option<Traces>,
}

impl DeliveryRun {
    /// Delivers jobs, and settles them.
    ///
    /// Jobs that the source cannot take back are held while the sink is unavailable, as long as their leases last.
    pub(super) async fn run(self, mut jobs: Vec<RelayJob>, mut held: HeldJobs) {
        let mut were_held = false;
        while let Some(probing) = self.permitted(&mut jobs, &mut held).await {
            let mut waiting = match probing {
                Some(_) => jobs.split_off(1),
                None => Vec::new(),
            };
            if std::mem::replace(&mut were_held, true) {
                let before = jobs.len();
                jobs = self.source.existing(jobs).await;
                drop(held.split(before - jobs.len()));
            }
            if jobs.is_empty() {
                jobs = waiting;
                continue;
            }
            let spans = RelaySpans::begin(self.traces.as_ref(), &mut jobs);
            let outcomes = self.deliver(&jobs).await;
            if let Some(spans) = spans {
                spans.end(&self.state, &jobs, &outcomes);
            }
            drop(probing);
            let unavailable = self.settle(jobs, outcomes, &mut held).await;
            let pause = match unavailable.is_empty() {
                true => Duration::ZERO,
                false => self.state.breaker.first_pause(),
            };
            // One job that the sink does not take must not stop the others.
            waiting.extend(unavailable);
            jobs = waiting;
            if jobs.is_empty() || !self.pause(pause).await {
                return;
            }
        }
    }

    /// Waits until the jobs may be delivered. Then it returns a guard if only one of them may be, to see whether the
    /// sink is available. Returns `None` if none is to be delivered any more.
    ///
    /// Jobs that the source can take back are not held, so they do not wait: the relay has asked the breaker before it
    /// reserved them. Jobs that have expired are dropped: the source deletes them.
    async fn permitted(
        &self,
        jobs: &mut Vec<RelayJob>,
        held: &mut HeldJobs,
    ) -> Option<Option<MutexGuard<'_, ()>>> {
        if self.source.can_release() {
            return Some(None);
        }
        let is_held = |job: &RelayJob, until| {
            job.held_until > until && job.expires_at.is_none_or(|at| at > Instant::now())
        };
        let breaker = &self.state.breaker;
        loop {
            let now = Instant::now();
            let permit = breaker.permit(now);
            let next = match permit {
                BreakerPermit::Wait(until) => until,
                _ => now,
            };
            let before = jobs.len();
            jobs.retain(|job| is_held(job, next + self.time_limit));
            drop(held.split(before - jobs.len()));
            if jobs.is_empty() {
                return None;
            }
            match permit {
                BreakerPermit::Flow => return Some(None),
                BreakerPermit::Wait(until) => {
                    self.stop.run_until_cancelled(sleep_until(until)).await?;
                }
                BreakerPermit::Probe => {
                    let probing = self.stop.run_until_cancelled(breaker.probe()).await?;
                    // The leases were checked before the wait for the guard.
                    if probing.is_some() && is_held(&jobs[0], Instant::now() + self.time_limit) {
                        return Some(probing);
                    }
                }
            }
        }
    }

    /// Whether it ended before a stop was requested.
    async fn pause(&self, pause: Duration) -> bool {
        let paused = self.stop.run_until_cancelled(sleep(pause)).await;
        paused.is_some()
    }

    /// Has jobs settled, and returns the jobs to deliver again.
    async fn settle(
        &self,
        jobs: Vec<RelayJob>,
        outcomes: Vec<DeliveryOutcome>,
        held: &mut HeldJobs,
    ) -> Vec<RelayJob> {
        let mut unavailable = Vec::new();
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            let action = match outcome {
                DeliveryOutcome::Unavailable(_) if !self.source.can_release() => {
                    unavailable.push(job);
                    continue;
                }
                DeliveryOutcome::Unavailable(_) => SettlementKind::Release(job.receipt),
                DeliveryOutcome::Confirmed => SettlementKind::Ack(job.receipt),
                DeliveryOutcome::Rejected {
                    error,
                    retry_in,
                    is_permanent,
                } => SettlementKind::Fail(FailedDelivery {
                    receipt: job.receipt,
                    error,
                    retry_in,
                    is_permanent,
                }),
            };
            let held = held.split(1);
            // The settler ends after all deliveries.
            let _ = self
                .settlements
                .send(SettledDelivery { action, held })
                .await;
        }
        unavailable
    }

    async fn deliver(&self, jobs: &[RelayJob]) -> Vec<DeliveryOutcome> {
        let (state, begin) = (&self.state, Instant::now());
        let outcomes = self.sink.deliver(jobs).await;
        state
            .metrics
            .delivery
            .observe(begin.elapsed().as_secs_f64());
        let mut is_available = false;
        let (mut first_unavailable, mut first_rejected, mut first_dead) = (None, None, None);
        for outcome in &outcomes {
            match outcome {
                DeliveryOutcome::Confirmed => state.metrics.confirmed.inc(),
                DeliveryOutcome::Rejected {
                    error,
                    is_permanent,
                    ..
                } => {
                    if *is_permanent {
                        state.metrics.dead.inc();
                        first_dead.get_or_insert(error);
                    } else {
                        state.metrics.rejected.inc();
                    }
                    first_rejected.get_or_insert(error);
                }
                DeliveryOutcome::Unavailable(reason) => {
                    state.metrics.unavailable.inc();
                    first_unavailable.get_or_insert(reason);
                }
            }
            is_available |= !matches!(outcome, DeliveryOutcome::Unavailable(_));
        }
        let error = first_unavailable.or(first_rejected);
        let error = error.map(|error| format!("sink: {error}"));
        let is_confirmed = |outcome: &DeliveryOutcome| *outcome == DeliveryOutcome::Confirmed;
        state.sink_called(error.as_deref(), !outcomes.iter().any(is_confirmed));
        if let Some(error) = first_rejected {
            tracing::debug!(relay = state.name, error, "the sink rejected jobs");
        }
        if let Some(error) = first_dead
            && state.dead_warnings.is_due()
        {
            tracing::warn!(
                relay = state.name,
                error,
                "jobs are dead: the sink will never take them; repair the cause, and respawn them"
            );
        }
        self.record(is_available, first_unavailable.map_or("", String::as_str));
        outcomes
    }

    fn record(&self, is_available: bool, reason: &str) {
        let state = &self.state;
        if is_available {
            state.metrics.breaker_open.set(0);
            if state.breaker.record_available() {
                tracing::info!(relay = state.name, "the sink is available again");
            }
            return;
        }
        if state.breaker.record_unavailable(Instant::now()) {
            tracing::warn!(
                relay = state.name,
                reason,
                "the sink is unavailable; no more jobs are reserved until it is back"
            );
        }
        let is_open = state.breaker.permit(Instant::now()) != BreakerPermit::Flow;
        state.metrics.breaker_open.set(is_open.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;
    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;

    use super::super::settler::settle_all;
    use super::*;
    use crate::circuit_breaker::CircuitBreaker;
    use crate::job::SourceReceipt;
    use crate::sources::{SourceError, SourceJobs};

    const JOBS: usize = 60;
    const SECOND: Duration = Duration::from_secs(1);

    /// A source of the lmstfy wire, which counts acks.
    #[derive(Default)]
    struct KeepingSource(AtomicU64);

    impl RelaySource for KeepingSource {
        fn can_release(&self) -> bool {
            false
        }

        fn reserve(&self, _: usize) -> BoxFuture<'_, Result<SourceJobs, SourceError>> {
            Box::pin(async { Ok(SourceJobs::default()) })
        }

        fn ack(&self, receipts: Vec<SourceReceipt>) -> BoxFuture<'_, Result<(), SourceError>> {
            self.0.fetch_add(receipts.len() as u64, Ordering::Relaxed);
            Box::pin(async { Ok(()) })
        }

        fn fail(&self, _: Vec<FailedDelivery>) -> BoxFuture<'_, Result<(), SourceError>> {
            Box::pin(async { Ok(()) })
        }

        fn release(
            &self,
            _: Vec<SourceReceipt>,
            _: Duration,
        ) -> BoxFuture<'_, Result<(), SourceError>> {
            Box::pin(async { Ok(()) })
        }
    }

    /// A sink that becomes available at some time, and records when it was called with how many jobs until then.
    struct LateSink {
        available_at: Instant,
        calls: Mutex<Vec<(Instant, usize)>>,
    }

    impl RelaySink for LateSink {
        fn deliver<'a>(&'a self, jobs: &'a [RelayJob]) -> BoxFuture<'a, Vec<DeliveryOutcome>> {
            let now = Instant::now();
            assert_ne!(jobs[0].id, "panic", "a panic of a library");
            let outcome = match now < self.available_at {
                true => DeliveryOutcome::Unavailable("down".to_owned()),
                false => DeliveryOutcome::Confirmed,
            };
            if now < self.available_at {
                self.calls.lock().push((now, jobs.len()));
            }
            Box::pin(async move {
                sleep(Duration::from_millis(10)).await;
                vec![outcome; jobs.len()]
            })
        }
    }

    struct Fixture {
        source: Arc<KeepingSource>,
        sink: Arc<LateSink>,
        state: Arc<RelayState>,
        room: Arc<Semaphore>,
        settlements: mpsc::Sender<SettledDelivery>,
    }

    impl Fixture {
        /// A relay whose breaker opens at the third call.
        fn new(name: &str, available_in: Duration) -> Self {
            let breaker = CircuitBreaker::new(3, SECOND, SECOND);
            let state = RelayState::new(name, String::new(), String::new(), breaker);
            let (source, state) = (Arc::new(KeepingSource::default()), Arc::new(state));
            let (settlements, receiver) = mpsc::channel(JOBS);
            let settling: Arc<KeepingSource> = Arc::clone(&source);
            tokio::spawn(settle_all(settling, Arc::clone(&state), receiver));
            let sink = LateSink {
                available_at: Instant::now() + available_in,
                calls: Mutex::default(),
            };
            Self {
                source,
                sink: Arc::new(sink),
                state,
                room: Arc::new(Semaphore::new(JOBS)),
                settlements,
            }
        }

        fn start(&self, jobs: Vec<RelayJob>) -> JoinHandle<()> {
            let held = HeldJobs::new(&self.state, &self.room, jobs.len());
            let run = DeliveryRun {
                source: Arc::<KeepingSource>::clone(&self.source),
                sink: Arc::<LateSink>::clone(&self.sink),
                state: Arc::clone(&self.state),
                settlements: self.settlements.clone(),
                stop: CancellationToken::new(),
                time_limit: SECOND,
                traces: None,
            };
            tokio::spawn(run.run(jobs, held))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_the_jobs_that_are_held_is_tried_after_each_pause() {
        let relay = Fixture::new("held", SECOND * 10 + SECOND / 2);
        let begin = Instant::now();
        let jobs = (0..JOBS).map(|number| RelayJob::of_test(&number.to_string()));
        let jobs: Vec<_> = jobs.collect();
        let runs: Vec<_> = jobs
            .chunks(6)
            .map(|jobs| relay.start(jobs.to_vec()))
            .collect();
        for run in runs {
            run.await.unwrap();
        }
        let calls = relay.sink.calls.lock().clone();
        assert_eq!(calls[..10], [(begin, 6); 10], "all are delivered first");
        let tried = &calls[10..];
        assert!((8..=10).contains(&tried.len()), "{tried:?}");
        assert!(tried.iter().all(|(_, jobs)| *jobs == 1), "{tried:?}");
        let pauses = tried.windows(2).map(|calls| calls[1].0 - calls[0].0);
        assert!(pauses.into_iter().all(|pause| pause >= SECOND), "{tried:?}");
        sleep(SECOND).await;
        assert_eq!(relay.source.0.load(Ordering::Relaxed), JOBS as u64);
        assert_eq!(relay.state.metrics.held.get(), 0);
        assert_eq!(relay.room.available_permits(), JOBS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_that_panics_gives_its_room_back() {
        let relay = Fixture::new("panics", Duration::ZERO);
        let run = relay.start(vec![RelayJob::of_test("panic"), RelayJob::of_test("other")]);
        assert!(run.await.unwrap_err().is_panic());
        assert_eq!(relay.state.metrics.held.get(), 0);
        assert_eq!(relay.room.available_permits(), JOBS);
    }
}
