//! Requests that affect whole queues: purges, respawns and consumes.

use std::collections::{HashMap, HashSet};

use super::excuses::Excuses;
use super::job::JobHistory;
use super::version::{Storing, VersionHistory};
use crate::history::{
    ClientRequest, History, Operation, RequestOutcome, Span, UnixMicros, Wire, truncate_to_ms,
};

/// A call to Redis, and the release of a job, each take less than the bound divided by this.
const CALL: u64 = 4;
/// Timeout of a call, in µs.
const CALL_MAX: u64 = 3_000_000;

/// Requests about queues that may have been carried out, by queue.
#[derive(Debug, Default)]
pub(super) struct QueueRequests<'a> {
    by_queue: HashMap<u16, RequestsOfQueue<'a>>,
    /// The queues that native clients use.
    native: HashSet<u16>,
}

#[derive(Debug, Default)]
pub(super) struct RequestsOfQueue<'a> {
    purges_ready: Vec<&'a Operation>,
    purges_dead: Vec<&'a Operation>,
    respawns: Vec<&'a Operation>,
    /// Requests that may have reserved jobs of the queue, or waited for it.
    reserves: Vec<&'a Operation>,
}

impl<'a> QueueRequests<'a> {
    pub(super) fn from_history(history: &'a History) -> Self {
        let mut queues = Self::default();
        for operation in &history.operations {
            if operation.wire == Wire::Native {
                queues.native.extend(operation.request.queues());
            }
            // A reserve that was rejected in the end may have waited for a long time.
            let was_refused = matches!(operation.outcome, RequestOutcome::Refused(_))
                && operation.reserve().is_none();
            let did_nothing = matches!(
                operation.outcome,
                RequestOutcome::NotSent | RequestOutcome::Respawned(0)
            );
            if was_refused || did_nothing {
                continue;
            }
            for queue in operation.request.queues() {
                let of_queue = queues.by_queue.entry(*queue).or_default();
                match &operation.request {
                    ClientRequest::PurgeReady { .. } => of_queue.purges_ready.push(operation),
                    ClientRequest::PurgeDead { .. } => of_queue.purges_dead.push(operation),
                    ClientRequest::Respawn { .. } => of_queue.respawns.push(operation),
                    ClientRequest::Reserve { .. } => of_queue.reserves.push(operation),
                    _ => {}
                }
            }
        }
        queues
    }

    /// Whether native clients use this queue.
    pub(super) fn is_native(&self, queue: u16) -> bool {
        self.native.contains(&queue)
    }

    fn get(&self, queue: u16) -> Option<&RequestsOfQueue<'a>> {
        self.by_queue.get(&queue)
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

    /// Whether a purge can have deleted the job of a version of the lmstfy wire after it was last observed.
    pub(super) fn may_have_purged(
        &self,
        version: &VersionHistory<'_>,
        job: &JobHistory,
        windows: &Excuses<'_>,
    ) -> bool {
        let Some(requests) = self.get(job.queue) else {
            return false;
        };
        let (available, left) = version.available_after(job);
        let published = version.stored();
        let until_available = Span {
            from: published.from,
            to: available,
        };
        let has_reliable_times =
            job.has_reliable_times && windows.has_reliable_clock(until_available);
        let available = match (has_reliable_times, job.deliveries.is_empty()) {
            // If Redis's clock was moved, also during the last lease, it may be available at any time.
            (false, _) => published.from,
            // It may have been stored at any time during its publish.
            (true, true) => published.from + version.spec.delay,
            (true, false) => available,
        };
        let seen = job.last_observed(windows).unwrap_or_default();
        let within = |purge: &Operation| Span {
            from: seen.max(available),
            to: windows.carried_out_by(purge),
        };
        let was_ready = |purge: &&Operation| {
            let time = within(purge);
            let is_ready = left > 0 || self.respawned_in(job.queue, time, windows).is_some();
            time.from <= time.to && is_ready
        };
        let was_dead = |purge: &&Operation| {
            let time = within(purge);
            time.from <= time.to && windows.unobserved_reservations(job.queue, time) >= left
        };
        requests.purges_ready.iter().any(was_ready) || requests.purges_dead.iter().any(was_dead)
    }

    /// Returns the purge that certainly deleted the job of a version of the lmstfy wire: the job was ready before it,
    /// and no consumer can have held it while the purge was carried out.
    pub(super) fn purged(
        &self,
        version: &VersionHistory<'_>,
        job: &JobHistory,
        windows: &Excuses<'_>,
    ) -> Option<&'a Operation> {
        let published = version.stored();
        let is_ready_at_once = version.storing() == Storing::Certain
            && job.has_reliable_times
            && version.spec.delay == 0;
        if !is_ready_at_once || version.is_native() {
            return None;
        }
        let requests = self.get(job.queue)?;
        if requests.purges_ready.is_empty() {
            return None;
        }
        let left = self.abandoned_waits(job.queue, windows);
        let delivered = job.deliveries.first().map(|first| first.begin.from);
        let is_certain = |purge: &&Operation| {
            let before = Span {
                from: published.from,
                to: purge.span.to,
            };
            purge.outcome == RequestOutcome::Deleted
                && published.to < purge.span.from
                && delivered.is_none_or(|at| at > purge.span.to)
                && windows.is_without_fault(before)
                && windows.unobserved_reservations(job.queue, before) == 0
                && !left.iter().any(|left| left.overlaps(&purge.span))
        };
        let certain = requests.purges_ready.iter().copied().filter(is_certain);
        certain.min_by_key(|purge| purge.span.to)
    }

    /// Returns when consumers stopped waiting for a queue without a job of it. A job may have been reserved for them
    /// and released around then, without costing a try and unobserved by clients.
    pub(super) fn abandoned_waits(&self, queue: u16, windows: &Excuses<'_>) -> Vec<Span> {
        let call = (windows.bound / CALL).min(CALL_MAX);
        let reserves = self.get(queue).into_iter().flat_map(|it| &it.reserves);
        let left = reserves.filter_map(|reserve| abandoned_wait(reserve, queue));
        let around = left.map(|left| Span {
            from: left.from.saturating_sub(call),
            to: left.to + 2 * call,
        });
        around.collect()
    }
}

/// Returns when a request stopped waiting for this queue, if it got no job of it.
fn abandoned_wait(reserve: &Operation, queue: u16) -> Option<Span> {
    let Span { from, to } = reserve.span;
    match reserve.delivered().map(<[_]>::first) {
        // At its timeout, which is just before the answer.
        Some(None) => Some(Span { from: to, to }),
        Some(Some(first)) if first.queue == queue => None,
        Some(Some(first)) => Some(Span {
            from: truncate_to_ms(first.reserved).max(from),
            to,
        }),
        None => Some(reserve.span),
    }
}
