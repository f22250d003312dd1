//! Waiting consumers: the interface for front doors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::Claim;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::check_share::CheckCounter;
use super::delivery::Delivery;
use super::parked_waiter::ParkedWaiter;
use super::seat::SeatOutcome;
use super::shared::Shared;
use super::slow::LOOK_IN_ORDER_MAX;
use super::source::Source;
use super::wake::wake;
use crate::error::EngineError;
use crate::pool::Pool;

/// The waiting consumers of all pools. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Waiters(Arc<Shared>);

impl Waiters {
    /// Creates the wait queues of these pools. Must be called inside a runtime.
    pub(crate) fn new(pools: &BTreeMap<Arc<str>, Arc<Pool>>, poll_interval: Duration) -> Self {
        Self(Arc::new(Shared::new(pools, poll_interval)))
    }

    /// Consumes jobs from the first source that has some. If none has, waits for `patience`, never less unless the wait
    /// queues are closed, and returns `None` if no job arrives. Each source is checked at least once after the call
    /// began, unless the call waits and it is known that a doorbell announces the jobs of the source. A failed check
    /// ends no wait and is repeated. A check that takes longer than `patience` is not awaited if checks of other lanes
    /// or sources were answered, and sources whose checks have not begun within `patience` are left out. If the first
    /// source fills only a part of the claim, the sources behind it are checked for the rest, without waiting for jobs.
    ///
    /// Dropping the future leaves all wait queues at once and releases jobs that were reserved for it.
    ///
    /// # Errors
    /// No job was found, and: with a `patience` of 0, the check of a source failed or was not awaited; otherwise, the
    /// last check of each lane of each source failed.
    pub async fn wait(
        &self,
        sources: &[Source],
        claim: Claim,
        patience: Duration,
    ) -> Result<Option<Delivery>, EngineError> {
        // Checks have a box of their own, so that a consumer that waits has no room for them.
        let first = match patience.is_zero() {
            true => Box::pin(self.check_now(sources, claim, None)).await?,
            false => self.wait_for_first(sources, claim, patience).await?,
        };
        let Some(mut delivery) = first else {
            return Ok(None);
        };
        if delivery.len() >= usize::from(claim.count) {
            return Ok(Some(delivery));
        }
        let first = delivery.source().clone();
        let until = Instant::now() + LOOK_IN_ORDER_MAX;
        let mut checks = CheckCounter::new(&self.0.check_shares);
        let behind = sources.iter().skip_while(|source| **source != first);
        for source in behind {
            let lanes = self.0.lanes_of(source);
            let looked_into = u16::from(*source == first);
            for _ in looked_into..lanes {
                let count = usize::from(claim.count).saturating_sub(delivery.len());
                let Ok(count @ 1..) = u16::try_from(count) else {
                    return Ok(Some(delivery));
                };
                let rest = Claim { count, ..claim };
                let Ok(_permit) = timeout_at(until, checks.next(source)).await else {
                    return Ok(Some(delivery));
                };
                let source = std::slice::from_ref(source);
                match Box::pin(self.check_now(source, rest, Some(until))).await {
                    Ok(Some(more)) => delivery.append(more),
                    // The leases of the jobs are running, so they are delivered now.
                    _ if Instant::now() >= until => return Ok(Some(delivery)),
                    // The jobs are delivered although a further source could not be checked.
                    Ok(None) | Err(_) => break,
                }
            }
        }
        Ok(Some(delivery))
    }

    /// Consumes jobs that are ready now. Returns what has arrived at `until`, if that is given.
    async fn check_now(
        &self,
        sources: &[Source],
        claim: Claim,
        until: Option<Instant>,
    ) -> Result<Option<Delivery>, EngineError> {
        let mut waiter = ParkedWaiter::new(&self.0, claim, false, sources.first());
        let looking = check_once(&mut waiter, sources);
        let (looked, is_unawaited) = match until {
            Some(until) => timeout_at(until, looking)
                .await
                .unwrap_or((SeatOutcome::NothingYet, true)),
            None => looking.await,
        };
        let is_unknown = is_unawaited || waiter.seat.has_failed_round();
        waiter.finish(looked, is_unknown)
    }

    async fn wait_for_first(
        &self,
        sources: &[Source],
        claim: Claim,
        patience: Duration,
    ) -> Result<Option<Delivery>, EngineError> {
        let deadline = Instant::now() + patience;
        let mut waiter = ParkedWaiter::new(&self.0, claim, true, sources.first());
        match waiter.check_in_order(sources, Some(deadline)).await {
            SeatOutcome::NothingYet => {}
            outcome => return waiter.finish(outcome, false),
        }
        let ended = async {
            match sources {
                [] => self.0.closed.cancelled().await,
                _ => match waiter.check_put_off().await {
                    SeatOutcome::NothingYet => waiter.seat.ended().await,
                    outcome => return Some(outcome),
                },
            }
            None
        };
        if let Ok(Some(outcome)) = timeout_at(deadline, ended).await {
            return waiter.finish(outcome, false);
        }
        let outcome = match waiter.is_answered() {
            true => SeatOutcome::NothingYet,
            false => waiter.first_rounds().await,
        };
        let is_unknown = !waiter.is_answered();
        waiter.finish(outcome, is_unknown)
    }

    /// Ends all waits without a job, also the waits of later consumers, and the waits for the ends of jobs.
    pub fn close(&self) {
        let mut wait_queues = self.0.wait_queues.lock();
        wait_queues.closed = true;
        for wait_queue in wait_queues.by_source.values() {
            wait_queue.close();
        }
        drop(wait_queues);
        self.0.closed.cancel();
        for state in self.0.pools.values() {
            state.pool.ends.closed.cancel();
        }
    }

    /// The number of waiting consumers of each source that has any.
    pub fn by_source(&self) -> Vec<(Source, usize)> {
        let wait_queues = self.0.wait_queues.lock();
        let wait_queues = wait_queues.by_source.iter();
        wait_queues
            .map(|(source, wait_queue)| (source.clone(), wait_queue.len()))
            .filter(|(_, consumers)| *consumers > 0)
            .collect()
    }

    /// Waits until all serve loops have ended and all undelivered jobs are released, and withdraws the registrations of
    /// the process. Must be called after [`Self::close`], when all requests have ended, and while [`Self::wake`] runs:
    /// a doorbell that comes before the withdrawal is passed on.
    pub async fn wait_idle(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.withdraw_everywhere().await;
        self.0.tasks.wait().await;
    }

    /// Rings the wait queues when they may have jobs, until `stop` is cancelled.
    pub async fn wake(&self, stop: CancellationToken) {
        stop.run_until_cancelled(wake(&self.0)).await;
    }
}

/// Checks the sources once. Returns also whether some checks were not awaited to their end.
async fn check_once(waiter: &mut ParkedWaiter<'_>, sources: &[Source]) -> (SeatOutcome, bool) {
    match waiter.check_in_order(sources, None).await {
        SeatOutcome::NothingYet => waiter.check_rest().await,
        outcome => (outcome, false),
    }
}
