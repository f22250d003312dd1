//! Sorts the requests of a history by version and job.

mod deliveries;
mod events;
mod publishes;

use std::collections::BTreeMap;

use super::excuses::Excuses;
use super::job::{EventKind, JobHistory};
use super::observed::Observed;
use super::verdict::Verdict;
use crate::history::{History, Span, UnixMicros};

/// Collects everything that was observed of jobs. Adds findings for deliveries that match no version.
pub(super) fn collect<'a>(
    history: &'a History,
    excuses: &Excuses<'_>,
    verdict: &mut Verdict,
) -> Observed<'a> {
    let mut observed = Observed::default();
    publishes::collect(history, excuses, &mut observed);
    deliveries::collect(history, excuses, &mut observed, verdict);
    publishes::prove_atomic(history, &mut observed);
    events::collect(history, excuses, &mut observed);
    sort_by_time(history, excuses, &mut observed);
    observed
}

/// Sorts deliveries and events of each job. If the clock of Redis was moved during its life, its deliveries are in the
/// order of attempts and used tries.
fn sort_by_time(history: &History, excuses: &Excuses<'_>, observed: &mut Observed<'_>) {
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
            true => job.deliveries.sort_by_key(|it| (it.begin.from, it.turn())),
            false => job.deliveries.sort_by_key(|it| (it.turn(), it.span.to)),
        }
        job.events.sort_by_key(|event| event.span.from);
    }
}

/// Returns when the last delivery or settle of a job was answered; `None` if it was never delivered.
fn last_used(job: &JobHistory) -> Option<UnixMicros> {
    let settles = job.events.iter();
    let settles = settles.filter(|event| matches!(event.kind, EventKind::Settled { .. }));
    let deliveries = job.deliveries.iter().map(|it| it.span.to);
    deliveries.chain(settles.map(|event| event.span.to)).max()
}

/// Returns the earliest time at which each job can have been stored, by its id.
fn first_stored(observed: &Observed<'_>) -> BTreeMap<String, UnixMicros> {
    let mut all = BTreeMap::new();
    for version in observed.versions.values() {
        if let Some(id) = &version.id {
            let from = all.entry(id.clone()).or_insert(UnixMicros::MAX);
            *from = version.stored().from.min(*from);
        }
    }
    all
}
