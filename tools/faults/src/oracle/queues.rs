//! Requests that affect whole queues: purges, respawns and consumes.

use std::collections::HashMap;

use super::cut::truncate_to_ms;
use super::excuses::Excuses;
use super::job_history::JobHistory;
use crate::history::{ClientRequest, History, Operation, RequestOutcome, Span, UnixMicros};

/// A call to Redis, and the release of a job, each take less than the bound divided by this.
const CALL: u64 = 4;
/// Timeout of a call, in µs.
const CALL_MAX: u64 = 3_000_000;

/// Requests about queues that may have been carried out, by queue.
#[derive(Debug, Default)]
pub(super) struct QueueRequests<'a>(HashMap<u16, RequestsOfQueue<'a>>);

#[derive(Debug, Default)]
pub(super) struct RequestsOfQueue<'a> {
    purges_ready: Vec<&'a Operation>,
    purges_dead: Vec<&'a Operation>,
    respawns: Vec<&'a Operation>,
    /// Consumes that may have reserved jobs of the queue, or waited for it.
    consumes: Vec<&'a Operation>,
}

impl<'a> QueueRequests<'a> {
    pub(super) fn from_history(history: &'a History) -> Self {
        let mut queues = Self::default();
        for operation in &history.operations {
            // A consume that was rejected in the end may have waited for a long time.
            let was_refused = matches!(operation.outcome, RequestOutcome::Refused(_))
                && !matches!(operation.request, ClientRequest::Consume { .. });
            let did_nothing = matches!(
                operation.outcome,
                RequestOutcome::NotSent | RequestOutcome::Respawned(0)
            );
            if was_refused || did_nothing {
                continue;
            }
            match &operation.request {
                ClientRequest::PurgeReady { queue } => {
                    queues.of_queue(*queue).purges_ready.push(operation)
                }
                ClientRequest::PurgeDead { queue, .. } => {
                    queues.of_queue(*queue).purges_dead.push(operation)
                }
                ClientRequest::Respawn { queue, .. } => {
                    queues.of_queue(*queue).respawns.push(operation)
                }
                ClientRequest::Consume { queues: asked, .. } => {
                    for queue in asked {
                        queues.of_queue(*queue).consumes.push(operation);
                    }
                }
                _ => {}
            }
        }
        queues
    }

    fn of_queue(&mut self, queue: u16) -> &mut RequestsOfQueue<'a> {
        self.0.entry(queue).or_default()
    }

    fn get(&self, queue: u16) -> Option<&RequestsOfQueue<'a>> {
        self.0.get(&queue)
    }

    /// Returns the last time in this span at which a respawn can have made a dead job of a queue ready, if there is
    /// one.
    pub(super) fn respawned_in(
        &self,
        queue: u16,
        during: Span,
        windows: &Excuses<'_>,
    ) -> Option<UnixMicros> {
        let respawns = self.get(queue).into_iter().flat_map(|it| &it.respawns);
        let can_be = respawns.filter_map(|respawn| {
            // The span to compare with may end at a time that is truncated to ms.
            let at = Span {
                from: truncate_to_ms(respawn.span.from),
                to: windows.carried_out_by(respawn),
            };
            at.overlaps(&during).then_some(at.to.min(during.to))
        });
        can_be.max()
    }

    /// Whether a purge can have deleted a job after it was last observed.
    pub(super) fn may_have_purged(
        &self,
        job_history: &JobHistory<'_>,
        windows: &Excuses<'_>,
    ) -> bool {
        let Some(requests) = self.get(job_history.queue) else {
            return false;
        };
        let (available, left) = job_history.available();
        let until_available = Span {
            from: job_history.published.span.from,
            to: available,
        };
        let has_reliable_times =
            job_history.has_reliable_times && windows.has_reliable_clock(until_available);
        let available = match (has_reliable_times, job_history.deliveries.is_empty()) {
            // If Redis's clock was moved, also during the last lease, it may be available at any time.
            (false, _) => job_history.published.span.from,
            // It may have been stored at any time during its publish.
            (true, true) => job_history.published.span.from + job_history.terms.delay,
            (true, false) => available,
        };
        let seen = available.max(job_history.last_observed(windows));
        let within = |purge: &Operation| Span {
            from: seen,
            to: windows.carried_out_by(purge),
        };
        let was_ready = |purge: &&&Operation| {
            let time = within(purge);
            let is_ready = left > 0
                || self
                    .respawned_in(job_history.queue, time, windows)
                    .is_some();
            time.from <= time.to && is_ready
        };
        let was_dead = |purge: &&&Operation| {
            let time = within(purge);
            time.from <= time.to && windows.unobserved_reservations(job_history.queue, time) >= left
        };
        requests.purges_ready.iter().any(|it| was_ready(&it))
            || requests.purges_dead.iter().any(|it| was_dead(&it))
    }

    /// Returns the purge that certainly deleted a job: the job was ready before it, and no consumer can have held it
    /// while the purge was carried out.
    pub(super) fn purged(
        &self,
        job_history: &JobHistory<'_>,
        windows: &Excuses<'_>,
    ) -> Option<&'a Operation> {
        let published = job_history.published.span;
        if !job_history.is_published()
            || !job_history.has_reliable_times
            || job_history.terms.delay > 0
        {
            return None;
        }
        let requests = self.get(job_history.queue)?;
        let left = self.abandoned_waits(job_history.queue, windows);
        let delivered = job_history
            .deliveries
            .first()
            .map(|first| first.lease_begin);
        let is_certain = |purge: &&Operation| {
            let before = Span {
                from: published.from,
                to: purge.span.to,
            };
            purge.outcome == RequestOutcome::Deleted
                && published.to < purge.span.from
                && delivered.is_none_or(|at| at > purge.span.to)
                && windows.is_without_fault(before)
                && windows.unobserved_reservations(job_history.queue, before) == 0
                && !left.iter().any(|left| left.overlaps(&purge.span))
        };
        let certain = requests.purges_ready.iter().copied().filter(is_certain);
        certain.min_by_key(|purge| purge.span.to)
    }

    /// Returns when consumers stopped waiting for a queue without a job of it. A job may have been reserved for them
    /// and released around then, without costing a try and unobserved by clients.
    pub(super) fn abandoned_waits(&self, queue: u16, windows: &Excuses<'_>) -> Vec<Span> {
        let call = (windows.bound / CALL).min(CALL_MAX);
        let consumes = self.get(queue).into_iter().flat_map(|it| &it.consumes);
        let left = consumes.filter_map(|consume| abandoned_wait(consume, queue));
        let around = left.map(|left| Span {
            from: left.from.saturating_sub(call),
            to: left.to + 2 * call,
        });
        around.collect()
    }
}

/// Returns when a consume stopped waiting for this queue, if it got no job of it.
fn abandoned_wait(consume: &Operation, queue: u16) -> Option<Span> {
    let Span { from, to } = consume.span;
    match (&consume.request, &consume.outcome) {
        (ClientRequest::Consume { .. }, RequestOutcome::Delivered(jobs)) => match jobs.first() {
            // At its timeout, which is just before the answer.
            None => Some(Span { from: to, to }),
            Some(first) if first.queue == queue => None,
            Some(first) => Some(Span {
                from: truncate_to_ms(first.reserved()).max(from),
                to,
            }),
        },
        _ => Some(consume.span),
    }
}
