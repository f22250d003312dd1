//! The failures and losses that answers show. A failure is counted only when a worker reports it. A lost worker costs
//! no attempt, but after too many of them the job is dead.

use tidegate_core::JobState;

use super::context::RuleContext;
use crate::history::{SettleAction, ShownJob, Span};
use crate::oracle::job::{EventKind, JobEvent, JobHistory, VersionDelivery};
use crate::oracle::observed::Observed;
use crate::oracle::verdict::{Defect, Verdict};
use crate::oracle::version::VersionHistory;

/// Lost workers after which a job is dead: the default of the pumps.
pub(super) const LOSSES_MAX: u32 = 5;

pub(super) fn judge(
    job: &JobHistory,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for (place, delivery) in job.deliveries.iter().enumerate() {
        let Some(version) = observed.versions.get(&delivery.number) else {
            continue;
        };
        let life = Span {
            from: version.stored().from,
            to: delivery.begin.to,
        };
        if !version.is_native() || context.excuses.may_lose(life) {
            continue;
        }
        let Some(shown) = shown_failures(delivery, version) else {
            continue;
        };
        let was_respawned = context
            .queues
            .respawned_in(job.queue, life, context.excuses)
            .is_some();
        check_failures(job, place, shown, was_respawned, verdict);
        if !was_respawned {
            check_losses(job, place, verdict);
        }
    }
    check_shown(job, observed, context, verdict);
}

/// Returns the failures that a delivery shows.
fn shown_failures(delivery: &VersionDelivery, version: &VersionHistory<'_>) -> Option<u64> {
    let by_tries = || Some(version.attempts_max().saturating_sub(delivery.tries_left?));
    delivery.failures.map(u64::from).or_else(by_tries)
}

/// Checks that a delivery shows the failures that workers have reported.
fn check_failures(
    job: &JobHistory,
    place: usize,
    shown: u64,
    was_respawned: bool,
    verdict: &mut Verdict,
) {
    let delivery = &job.deliveries[place];
    let of_version = || {
        job.possibly_before(place)
            .filter(|it| it.number == delivery.number)
    };
    let reported = || of_version().flat_map(|it| job.reported_failures(it));
    let certain = reported().filter(|(at, is_certain)| *is_certain && at.to < delivery.begin.from);
    let (certain, possible) = (certain.count() as u64, reported().count() as u64);
    let mut add = |defect, count| {
        let name = job.name();
        let text =
            format!("{name} was delivered with {shown} failures, and workers reported {count}");
        verdict.add_finding(defect, delivery.span.to, text);
    };
    if shown > possible {
        add(Defect::DiedEarly, possible);
    }
    if shown < certain && !was_respawned {
        add(Defect::Doubled, certain);
    }
}

/// Checks that a job does not come after it has lost as many workers as it may.
fn check_losses(job: &JobHistory, place: usize, verdict: &mut Verdict) {
    let delivery = &job.deliveries[place];
    let losses = job
        .certainly_before(place)
        .filter(|it| it.number == delivery.number && was_lost(job, it));
    let losses = losses.count();
    if losses >= LOSSES_MAX as usize {
        let name = job.name();
        let text = format!("{name} was delivered after {losses} of its workers were lost");
        verdict.add_finding(Defect::AfterItsEnd, delivery.span.to, text);
    }
}

/// Whether a worker has certainly let its lease expire.
fn was_lost(job: &JobHistory, delivery: &VersionDelivery) -> bool {
    !job.events
        .iter()
        .any(|it| it.may_end_attempt(delivery.attempt))
}

/// Checks that a job does not show more losses than deliveries, and does not die of fewer than it may.
fn check_shown(
    job: &JobHistory,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    if !job.counts_failures {
        return;
    }
    let first = job.deliveries.first();
    let version = first.and_then(|it| observed.versions.get(&it.number));
    for event in &job.events {
        let EventKind::Shown(shown) = &event.kind else {
            continue;
        };
        let begun = job.deliveries.iter().filter(|it| it.begin.from <= event.by);
        let since = begun.clone().map(|it| it.begin.from).min();
        let during = Span {
            from: since.unwrap_or(event.span.from).min(event.span.from),
            to: event.by,
        };
        if context.excuses.may_lose(during) {
            continue;
        }
        // The first delivery may be of a later version than the one that is shown.
        let stored = version.map_or(during.from, |version| version.stored().from);
        let life = Span {
            from: stored.min(during.from),
            to: event.by,
        };
        let unseen = context.excuses.unobserved_reservations(job.queue, life);
        let possible = begun.count() as u64 + unseen;
        if u64::from(shown.losses) > possible || died_early(job, event, shown) {
            let text = format!(
                "{} is shown {:?} with {} losses, and had at most {possible} deliveries",
                job.name(),
                shown.state,
                shown.losses
            );
            verdict.add_finding(Defect::DiedEarly, event.span.to, text);
        }
    }
}

/// Whether a job is shown that died of fewer losses than it may have, and of nothing else.
fn died_early(job: &JobHistory, event: &JobEvent, shown: &ShownJob) -> bool {
    let reports_failure = |it: &JobEvent| {
        let is_fail = matches!(
            it.kind,
            EventKind::Settled {
                action: SettleAction::Fail | SettleAction::FailRetryIn(_) | SettleAction::FailDead,
                ..
            }
        );
        is_fail && it.span.from <= event.by
    };
    shown.state == JobState::Dead
        && shown.died_of_losses
        && shown.losses < LOSSES_MAX
        && !job.events.iter().any(reports_failure)
}
