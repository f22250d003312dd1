//! Sorts the requests of a history by version and job.

mod deliveries;
mod events;
mod publishes;

use std::collections::BTreeMap;

use super::job::{EventKind, NativeJob};
use super::native_history::NativeHistory;
use crate::history::{History, Span, UnixMicros};
use crate::oracle::excuses::Excuses;
use crate::oracle::verdict::Verdict;

/// Collects what was observed on the queues of native clients. Adds findings for deliveries that match no version.
pub(super) fn collect<'a>(
    history: &'a History,
    excuses: &Excuses<'_>,
    verdict: &mut Verdict,
) -> NativeHistory<'a> {
    let mut observed = NativeHistory::default();
    publishes::collect(history, excuses, &mut observed);
    deliveries::collect(history, excuses, &mut observed, verdict);
    publishes::prove_atomic(history, &mut observed);
    events::collect(history, excuses, &mut observed);
    sort_by_time(history, excuses, &mut observed);
    observed
}

/// Sorts deliveries and events of each job. If the clock of Redis was moved during its life, those of its deliveries
/// that show an attempt are in the order of the attempts.
fn sort_by_time(history: &History, excuses: &Excuses<'_>, observed: &mut NativeHistory<'_>) {
    let stored = first_stored(observed);
    for job in observed.jobs.values_mut() {
        let life = Span {
            from: stored.get(&job.id).copied().unwrap_or(history.began),
            to: last_used(job).unwrap_or(history.ended),
        };
        let mut deliveries = job.deliveries.iter();
        job.has_reliable_times =
            excuses.has_reliable_clock(life) && deliveries.all(|it| it.has_reliable_times);
        match job.has_reliable_times {
            true => job.deliveries.sort_by_key(|it| (it.begin.from, it.attempt)),
            false => job.deliveries.sort_by_key(|it| (it.attempt, it.span.to)),
        }
        job.events.sort_by_key(|event| event.span.from);
    }
}

/// Returns when the last delivery or settle of a job was answered; `None` if it was never delivered.
fn last_used(job: &NativeJob) -> Option<UnixMicros> {
    let settles = job.events.iter();
    let settles = settles.filter(|event| matches!(event.kind, EventKind::Settled { .. }));
    let deliveries = job.deliveries.iter().map(|it| it.span.to);
    deliveries.chain(settles.map(|event| event.span.to)).max()
}

/// Returns the earliest time at which each job can have been stored, by its id.
fn first_stored(observed: &NativeHistory<'_>) -> BTreeMap<String, UnixMicros> {
    let mut all = BTreeMap::new();
    for version in observed.versions.values() {
        if let Some(id) = &version.id {
            let from = all.entry(id.clone()).or_insert(UnixMicros::MAX);
            *from = version.stored().from.min(*from);
        }
    }
    all
}
