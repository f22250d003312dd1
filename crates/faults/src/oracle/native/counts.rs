//! Failures and losses. A failure is counted only when a worker reports it; a lost worker costs no attempt, but after too
//! many of them the job is dead.

use tidegate_api_types::values::StateName;

use super::NativeHistory;
use super::job::{EventKind, NativeJob, VersionDelivery};
use super::settled::{attempts_max, failures_of};
use crate::history::{SettleVerb, Span};
use crate::oracle::rules::RuleContext;
use crate::oracle::verdict::{Defect, Verdict};

/// Lost workers after which a job is dead: the default of the pumps.
const LOSSES_MAX: u32 = 5;

pub(super) fn judge(
    job: &NativeJob,
    observed: &NativeHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let mut losses = 0;
    for (place, delivery) in job.deliveries.iter().enumerate() {
        let before = &job.deliveries[..place];
        let of_version = || before.iter().filter(|it| it.number == delivery.number);
        let Some(version) = observed.versions.get(&delivery.number) else {
            continue;
        };
        let life = Span {
            from: version.stored().from,
            to: delivery.begin.to,
        };
        if !version.is_native || context.excuses.may_lose(life) {
            continue;
        }
        let most = attempts_max(version);
        let shown = match (delivery.failures, delivery.tries_left) {
            (Some(failures), _) => u64::from(failures),
            (None, Some(left)) => most.saturating_sub(left),
            (None, None) => continue,
        };
        let respawned = context
            .queues
            .respawned_in(job.queue, life, context.excuses);
        let reported = || of_version().flat_map(|it| failures_of(job, it));
        let certain =
            reported().filter(|(at, is_certain)| *is_certain && at.to < delivery.begin.from);
        let (certain, possible) = (certain.count() as u64, reported().count() as u64);
        if shown > possible {
            let text = format!(
                "{} came with {shown} failures, and workers reported {possible}",
                job.name()
            );
            verdict.add_finding(Defect::DiedEarly, delivery.span.to, text);
        }
        if shown < certain && respawned.is_none() {
            let text = format!(
                "{} came with {shown} failures, and workers reported {certain}",
                job.name()
            );
            verdict.add_finding(Defect::Doubled, delivery.span.to, text);
        }
        losses = match before.last() {
            Some(last) if last.number == delivery.number && respawned.is_none() => {
                losses + u32::from(was_lost(job, last))
            }
            _ => 0,
        };
        if losses >= LOSSES_MAX {
            let text = format!(
                "{} came after {losses} of its workers were lost",
                job.name()
            );
            verdict.add_finding(Defect::AfterItsEnd, delivery.span.to, text);
        }
    }
    shown_losses(job, observed, context, verdict);
}

/// Whether a worker has certainly let its lease expire.
fn was_lost(job: &NativeJob, delivery: &VersionDelivery) -> bool {
    !job.events
        .iter()
        .any(|it| it.may_end_attempt(delivery.attempt))
}

/// A job does not show more losses than deliveries, and does not die of fewer than it may.
fn shown_losses(
    job: &NativeJob,
    observed: &NativeHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let first = job.deliveries.first();
    let version = first.and_then(|it| observed.versions.get(&it.number));
    if !job.counts_failures {
        return;
    }
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
        let life = Span {
            from: version.map_or(during.from, |version| version.stored().from),
            to: event.by,
        };
        let unseen = context.excuses.unobserved_reservations(job.queue, life);
        let possible = begun.count() as u64 + unseen;
        let has_reported = job.events.iter().any(|it| {
            matches!(
                it.kind,
                EventKind::Settled {
                    verb: SettleVerb::Fail | SettleVerb::FailRetryIn(_) | SettleVerb::FailDead,
                    ..
                }
            ) && it.span.from <= event.by
        });
        let died_early = shown.state == StateName::Dead
            && shown.died_of_losses
            && shown.losses < LOSSES_MAX
            && !has_reported;
        if u64::from(shown.losses) > possible || died_early {
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
