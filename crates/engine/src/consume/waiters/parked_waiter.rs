//! The state of a waiting consumer, which is undone when the consumer leaves.

use std::collections::VecDeque;
use std::sync::Arc;

use prometheus::IntGauge;
use tidegate_store::Claim;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::check_share::CheckCounter;
use super::delivery::Delivery;
use super::seat::{Seat, SeatOutcome};
use super::shared::Shared;
use super::slow::SlowServers;
use super::source::Source;
use super::wait_queue::WaitQueue;
use crate::error::EngineError;

/// The most sources whose checks a consumer begins at once without awaiting each of them. The others follow in further
/// steps.
const STEP_MAX: usize = 8;

/// The wait queues that a consumer leaves at once. It leaves the others in a task, which yields to other tasks.
const LEFT_AT_ONCE: usize = 32;

/// A waiting consumer: its seat, and the wait queues that the seat is in. Dropping it leaves them and releases the jobs
/// at the seat.
pub(super) struct ParkedWaiter<'a> {
    shared: &'a Arc<Shared>,
    pub(super) seat: Arc<Seat>,
    /// The wait queues that hold the seat, and its tickets. The wait queue that has delivered jobs holds it no more.
    wait_queues: Vec<(Source, u64)>,
    /// Sources whose checks have not begun: the step was full of others that are not awaited.
    put_off: VecDeque<Source>,
    /// Whether a check in order was answered.
    has_answer: bool,
    waiting: Option<&'a IntGauge>,
}

/// Checks that have begun together.
struct CheckStep {
    source: Source,
    tickets: Vec<u64>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// A wait queue that was entered.
struct EnteredQueue {
    ticket: u64,
    /// Whether the last call for each of its lanes failed.
    is_failing: bool,
}

impl<'a> ParkedWaiter<'a> {
    /// Creates a consumer in no wait queue. It counts as waiting for the pool of `first`, its first source. `waits`:
    /// for jobs that come later.
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        claim: Claim,
        waits: bool,
        first: Option<&Source>,
    ) -> Self {
        let pool = first.and_then(|source| shared.pools.get(&source.pool));
        let waiting = pool.map(|pool| &pool.waiting);
        if let Some(waiting) = waiting {
            waiting.inc();
        }
        Self {
            shared,
            seat: Arc::new(Seat::new(claim, waits)),
            wait_queues: Vec::with_capacity(1),
            put_off: VecDeque::new(),
            has_answer: false,
            waiting,
        }
    }

    /// Checks the sources one after the other until jobs arrive, which keeps the strict order of queues. Checks are
    /// awaited until `deadline`, if there is one; few begin after it. Sources whose last check failed, and those on
    /// slow servers whose time is used up (see [`SlowServers`]), are not awaited; the seat stays in the wait queues of
    /// some of them, and the others are put off until [`Self::check_put_off`] or [`Self::check_rest`].
    pub(super) async fn check_in_order(
        &mut self,
        sources: &[Source],
        deadline: Option<Instant>,
    ) -> SeatOutcome {
        let mut slow = SlowServers::new();
        let mut checks = CheckCounter::new(&self.shared.check_shares);
        let mut unawaited = 0;
        for (number, source) in sources.iter().enumerate() {
            let is_exhausted = slow.is_exhausted_for(self.shared, source);
            if unawaited >= STEP_MAX {
                if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                    break;
                }
                if is_exhausted || self.shared.is_failing(source) {
                    self.put_off.push_back(source.clone());
                    continue;
                }
            }
            let is_last = number + 1 == sources.len();
            // The next source is checked only if this source has no job at all.
            let must_check = !is_last || !self.seat.waits;
            let _permit = tokio::select! {
                biased;
                permit = checks.next(source) => permit,
                () = self.seat.ended_until(deadline) => break,
            };
            let Some(EnteredQueue { ticket, is_failing }) = self.enter(source, must_check) else {
                return SeatOutcome::Closed;
            };
            let tickets = [ticket];
            let looked = if !is_failing && !is_exhausted {
                let first_round = self.seat.wait(&tickets);
                match deadline {
                    Some(deadline) if is_last => timeout_at(deadline, first_round).await.ok(),
                    Some(deadline) => {
                        let looking = slow.wait(self.shared, source, first_round);
                        timeout_at(deadline, looking).await.ok().flatten()
                    }
                    // No other source waits for it, so that it needs no timer.
                    None if sources.len() == 1 => Some(first_round.await),
                    None => slow.wait(self.shared, source, first_round).await,
                }
            } else {
                self.seat.try_take(&tickets)
            };
            match looked {
                Some(SeatOutcome::NothingYet) => {
                    self.has_answer = true;
                    if deadline.is_none() {
                        self.leave_queues(|entered| entered == ticket);
                    }
                }
                None => unawaited += 1,
                Some(outcome) => return outcome,
            }
        }
        self.seat.try_take(&[]).unwrap_or(SeatOutcome::NothingYet)
    }

    /// Checks the sources that were put off, some at a time, until jobs arrive.
    pub(super) async fn check_put_off(&mut self) -> SeatOutcome {
        let mut checks = CheckCounter::new(&self.shared.check_shares);
        while let Some(step) = self.begin_step(&mut checks).await {
            match self.seat.wait(&step.tickets).await {
                SeatOutcome::NothingYet => {}
                outcome => return outcome,
            }
        }
        self.seat.try_take(&[]).unwrap_or(SeatOutcome::NothingYet)
    }

    /// Awaits the checks that were not awaited in order, and then checks the sources that were put off, some at a time,
    /// until jobs arrive or a check has failed. Returns also whether it has ended before all checks were answered: once
    /// a check in order was answered, a server that answers none of the next checks for
    /// [`LOOK_IN_ORDER_MAX`](super::slow::LOOK_IN_ORDER_MAX) is not awaited.
    pub(super) async fn check_rest(&mut self) -> (SeatOutcome, bool) {
        let mut checks = CheckCounter::new(&self.shared.check_shares);
        let mut step = self.unawaited_step();
        while let Some(CheckStep {
            source, tickets, ..
        }) = &step
        {
            let checked = self.seat.wait(tickets);
            let checked = match self.has_answer {
                true => SlowServers::new().wait(self.shared, source, checked).await,
                false => Some(checked.await),
            };
            match checked {
                None => return (SeatOutcome::NothingYet, true),
                Some(SeatOutcome::NothingYet) if self.seat.has_failed_round() => break,
                Some(SeatOutcome::NothingYet) => {}
                Some(outcome) => return (outcome, false),
            }
            self.leave_queues(|_| true);
            step = self.begin_step(&mut checks).await;
        }
        let outcome = self.seat.try_take(&[]).unwrap_or(SeatOutcome::NothingYet);
        (outcome, false)
    }

    /// The checks that have begun and were not awaited.
    fn unawaited_step(&self) -> Option<CheckStep> {
        let (source, _) = self.wait_queues.first()?;
        Some(CheckStep {
            source: source.clone(),
            tickets: self.tickets(),
            _permit: None,
        })
    }

    /// Begins the checks of the next sources that were put off; `None` if there is none, or the wait queues are closed.
    async fn begin_step(&mut self, checks: &mut CheckCounter<'_>) -> Option<CheckStep> {
        let source = self.put_off.front()?.clone();
        let count = self.put_off.len().min(STEP_MAX);
        let permit = checks.permits(&source, count).await;
        let sources: Vec<Source> = self.put_off.drain(..count).collect();
        let entered = sources.iter().map(|source| self.enter(source, true));
        let tickets: Option<Vec<u64>> = entered.map(|entered| Some(entered?.ticket)).collect();
        Some(CheckStep {
            source,
            tickets: tickets?,
            _permit: permit,
        })
    }

    /// Waits until all its wait queues have had the first round for it, or jobs have arrived.
    pub(super) async fn first_rounds(&self) -> SeatOutcome {
        self.seat.wait(&self.tickets()).await
    }

    fn tickets(&self) -> Vec<u64> {
        self.wait_queues.iter().map(|(_, ticket)| *ticket).collect()
    }

    /// Enters the wait queue of a source at the end; `None` if the wait queues are closed.
    fn enter(&mut self, source: &Source, must_check: bool) -> Option<EnteredQueue> {
        let mut wait_queues = self.shared.wait_queues.lock();
        if wait_queues.closed {
            self.seat.close();
            return None;
        }
        let ticket = wait_queues.next_ticket;
        wait_queues.next_ticket += 1;
        let wait_queue = wait_queues.by_source.entry(source.clone()).or_default();
        let is_failing = wait_queue.has_failed_everywhere();
        let start = wait_queue.enter(ticket, Arc::clone(&self.seat), must_check);
        drop(wait_queues);
        self.wait_queues.push((source.clone(), ticket));
        if start {
            self.shared.spawn_serve_loop(source.clone());
        }
        Some(EnteredQueue { ticket, is_failing })
    }

    /// Leaves the wait queues that were entered with these tickets; the seat is kept.
    fn leave_queues(&mut self, is_left: impl Fn(u64) -> bool) {
        let left = self
            .wait_queues
            .extract_if(.., |(_, ticket)| is_left(*ticket));
        self.shared.leave(left);
    }

    /// Whether the last call for a wait queue of the seat was answered, or the seat is in no wait queue.
    pub(super) fn is_answered(&self) -> bool {
        let wait_queues = self.shared.wait_queues.lock();
        let mut own = self.wait_queues.iter();
        let wait_queue = |source| {
            wait_queues
                .by_source
                .get(source)
                .is_some_and(WaitQueue::is_answered)
        };
        self.wait_queues.is_empty() || own.any(|(source, _)| wait_queue(source))
    }

    /// Ends the wait. Jobs that have arrived at the seat since it was checked are delivered: released, they would come
    /// behind jobs that a call in flight has taken after them. `is_unknown`: not all sources were checked.
    pub(super) fn finish(
        mut self,
        outcome: SeatOutcome,
        is_unknown: bool,
    ) -> Result<Option<Delivery>, EngineError> {
        let outcome = match outcome {
            SeatOutcome::NothingYet => self.seat.end_wait(),
            outcome => outcome,
        };
        let arrived = match outcome {
            SeatOutcome::Jobs(reservation) => Some(reservation),
            SeatOutcome::NothingYet => None,
            SeatOutcome::Failed => return Err(EngineError::StorageFailed),
            SeatOutcome::Closed => return Ok(None),
        };
        match arrived {
            Some(reservation) => {
                self.wait_queues
                    .retain(|(_, ticket)| *ticket != reservation.ticket);
                Ok(Some(Delivery::new(Arc::clone(self.shared), reservation)))
            }
            None if is_unknown => Err(EngineError::StorageFailed),
            None => Ok(None),
        }
    }
}

impl Drop for ParkedWaiter<'_> {
    fn drop(&mut self) {
        let behind = self
            .wait_queues
            .split_off(LEFT_AT_ONCE.min(self.wait_queues.len()));
        self.leave_queues(|_| true);
        if !behind.is_empty() {
            self.shared.leave_in_steps(behind, LEFT_AT_ONCE);
        }
        if let Some(reservation) = self.seat.leave() {
            let jobs = reservation.leased();
            self.shared.release(reservation.source, None, jobs);
        }
        if let Some(waiting) = self.waiting {
            waiting.dec();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use tidegate_store::LeaseLength;
    use tokio::time::advance;

    use super::super::seat::Reservation;
    use super::*;

    #[tokio::test]
    async fn jobs_that_arrive_after_the_last_check_are_delivered() {
        let shared = Arc::new(Shared::new(&BTreeMap::new(), Duration::from_secs(1)));
        let claim = Claim::new(1, 1000);
        let reservation = || Reservation {
            source: Source::new("default", "ns/q"),
            ticket: 1,
            jobs: vec![],
            lease: LeaseLength::Ms(1000),
            now_ms: 1,
        };
        for is_unknown in [false, true] {
            let waiter = ParkedWaiter::new(&shared, claim, true, None);
            let seat = Arc::clone(&waiter.seat);
            seat.deliver(reservation()).unwrap();
            let found = waiter.finish(SeatOutcome::NothingYet, is_unknown);
            assert!(found.unwrap().is_some());
            assert!(seat.deliver(reservation()).is_err(), "the seat is left");
        }
        let waiter = ParkedWaiter::new(&shared, claim, true, None);
        assert!(waiter.finish(SeatOutcome::NothingYet, true).is_err());
        let waiter = ParkedWaiter::new(&shared, claim, true, None);
        let found = waiter.finish(SeatOutcome::NothingYet, false);
        assert!(found.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_consumer_of_many_queues_starts_few_checks_at_its_deadline() {
        let shared = Arc::new(Shared::new(&BTreeMap::new(), Duration::from_secs(1)));
        let mut waiter = ParkedWaiter::new(&shared, Claim::new(1, 1000), true, None);
        // Their pool is unknown, so that no check is answered.
        let sources: Vec<Source> = (0..1000)
            .map(|number| Source::new("default", &format!("ns/{number}")))
            .collect();
        let deadline = Instant::now() + Duration::from_millis(100);
        let checking = waiter.check_in_order(&sources, Some(deadline));
        assert_eq!(checking.await, SeatOutcome::NothingYet);
        let entered = waiter.wait_queues.len();
        assert!((2..=STEP_MAX).contains(&entered), "{entered}");
    }

    #[tokio::test(start_paused = true)]
    async fn checks_in_a_late_process_are_awaited_until_the_deadline() {
        const PATIENCE: Duration = Duration::from_secs(1);
        const TURN: Duration = Duration::from_millis(100);
        let shared = Arc::new(Shared::new(&BTreeMap::new(), Duration::from_secs(1)));
        let mut waiter = ParkedWaiter::new(&shared, Claim::new(1, 1000), true, None);
        // Their pool is unknown, so that no check is answered.
        let sources = ["ns/a", "ns/b"].map(|queue| Source::new("default", queue));
        let late = tokio::spawn(async {
            loop {
                advance(TURN).await;
            }
        });
        let begin = Instant::now();
        let checking = waiter.check_in_order(&sources, Some(begin + PATIENCE));
        assert_eq!(checking.await, SeatOutcome::NothingYet);
        assert!(begin.elapsed() <= PATIENCE + TURN * 4);
        late.abort();
    }
}
