//! A stored version is delivered until it ends, and not afterwards. It ends by an ack, by a cancel, or when a newer
//! version replaces it.

use super::job::{EventKind, JobEvent, NativeJob};
use super::native_history::NativeHistory;
use super::version::{Storing, VersionHistory};
use crate::history::{CancelEffect, SettleAction, Span};
use crate::oracle::rules::RuleContext;
use crate::oracle::verdict::{Defect, Verdict};
use tidegate_core::v1::consume::Outcome;

/// A request that has ended a version, or may have.
#[derive(Debug)]
struct VersionEnd {
    /// The span in which it can have been carried out.
    at: Span,
    /// Whether the request has certainly ended it.
    is_certain: bool,
    /// A participle, for findings.
    how: &'static str,
}

const REPLACED: &str = "replaced";
const DEAD: &str = "dead";

pub(super) fn judge(
    version: &VersionHistory<'_>,
    observed: &NativeHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let Some(job) = version.id.as_ref().and_then(|id| observed.jobs.get(id)) else {
        return;
    };
    let mut ends: Vec<VersionEnd> = job
        .events
        .iter()
        .filter_map(|it| end_by(version, job, it))
        .collect();
    ends.extend(
        observed
            .rivals(version)
            .filter_map(|it| end_by_rival(version, it)),
    );
    never_after_its_end(version, job, &ends, context, verdict);
    never_lost(version, job, &ends, context, verdict);
}

/// Returns how a request ends a version, if it does.
fn end_by(version: &VersionHistory<'_>, job: &NativeJob, event: &JobEvent) -> Option<VersionEnd> {
    let is_after = version.stored().to < event.span.from;
    let (is_certain, how) = match &event.kind {
        // On the lmstfy wire an ack of a job with a key counts only while it is leased, whichever version that is.
        EventKind::Settled {
            attempt: None,
            result,
            ..
        } => (job.key.is_none() && result.is_some(), "acknowledged"),
        EventKind::Settled { number, .. } if *number != version.number() => return None,
        EventKind::Settled {
            action: SettleAction::Ack,
            result: None,
            ..
        } => (false, "acknowledged"),
        EventKind::Settled {
            result: Some(result),
            ..
        } => match result {
            Outcome::Done { .. } => (true, "done"),
            Outcome::Rerun => (true, REPLACED),
            Outcome::Cancelled => (true, "cancelled"),
            Outcome::Dead => (true, DEAD),
            _ => return None,
        },
        EventKind::Cancelled(None) => (false, "cancelled"),
        EventKind::Cancelled(Some(CancelEffect::AlreadyDone)) => return None,
        EventKind::Cancelled(Some(_)) => (is_after, "cancelled"),
        _ => return None,
    };
    Some(VersionEnd {
        at: event.carried_out(),
        is_certain,
        how,
    })
}

/// Returns how another version of the key ends this one, if it does.
fn end_by_rival(version: &VersionHistory<'_>, rival: &VersionHistory<'_>) -> Option<VersionEnd> {
    if rival.storing() == Storing::Never {
        return None;
    }
    let mut stored = rival
        .publishes
        .iter()
        .filter(|publish| publish.has_stored());
    let at = rival.stored();
    Some(VersionEnd {
        at,
        is_certain: rival.id == version.id
            && stored.next().is_some()
            && version.stored().to < at.from,
        how: REPLACED,
    })
}

fn never_after_its_end(
    version: &VersionHistory<'_>,
    job: &NativeJob,
    ends: &[VersionEnd],
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let number = version.number();
    let certain = ends.iter().filter(|end| end.is_certain);
    for end in certain.filter(|end| !context.excuses.may_lose(end.at)) {
        let deliveries = job.deliveries.iter().filter(|it| it.number == number);
        let Some(late) = deliveries
            .filter(|it| it.begin.from > end.at.to)
            .min_by_key(|it| it.begin.from)
        else {
            continue;
        };
        let between = Span {
            from: end.at.from,
            to: late.begin.to,
        };
        let was_respawned = end.how == DEAD
            && context
                .queues
                .respawned_in(job.queue, between, context.excuses)
                .is_some();
        if was_respawned {
            continue;
        }
        let defect = match end.how {
            REPLACED => Defect::OldVersion,
            _ => Defect::AfterItsEnd,
        };
        let after = late.begin.from - end.at.to;
        let text = format!(
            "{} was delivered {after} µs after it was {}",
            version.name(),
            end.how
        );
        verdict.add_finding(defect, late.span.to, text);
    }
}

fn never_lost(
    version: &VersionHistory<'_>,
    job: &NativeJob,
    ends: &[VersionEnd],
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    if version.storing() != Storing::Certain {
        return;
    }
    let number = version.number();
    let begins = job.deliveries.iter().filter(|it| it.number == number);
    let begins: Vec<Span> = begins.map(|it| it.begin).collect();
    let stored = version.stored();
    let durable = begins
        .iter()
        .filter(|begin| !context.excuses.may_lose(**begin));
    let durable = durable.map(|begin| begin.from).max();
    let last_seen = durable.unwrap_or(stored.from);
    let may_explain = |end: &VersionEnd| end.how != DEAD && end.at.to >= last_seen;
    if ends.iter().any(may_explain) {
        return;
    }
    let may_be_lost = match version.is_confirmed() {
        true => context.excuses.may_lose_jobs(stored),
        false => durable.is_none() && context.excuses.may_lose(stored),
    };
    if may_be_lost {
        verdict.counts.lost_with_redis += 1;
        return;
    }
    let what = match begins.len() {
        0 => "was never delivered".to_owned(),
        times => format!("was delivered {times} times and not again"),
    };
    verdict.add_finding(
        Defect::Lost,
        stored.to,
        format!("{} {what}", version.name()),
    );
}

/// No request finds a job after it was done or deleted.
pub(super) fn never_found_after_its_end(
    job: &NativeJob,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let ends = job.events.iter().filter(|event| match &event.kind {
        EventKind::Settled {
            attempt: Some(_),
            result,
            ..
        } => matches!(result, Some(Outcome::Done { .. } | Outcome::Cancelled)),
        EventKind::Cancelled(Some(effect)) => {
            matches!(effect, CancelEffect::Revoked | CancelEffect::Deleted(_))
        }
        _ => false,
    });
    let mut durable = ends.filter(|end| !context.excuses.may_lose(end.span));
    let Some(end) = durable.next() else {
        return;
    };
    let mut others = job.events.iter().filter(|event| event.shows_unfinished());
    if let Some(event) = others.find(|event| event.span.from > end.span.to) {
        let text = format!("{} was found by {:?} after its end", job.name(), event.kind);
        verdict.add_finding(Defect::AfterItsEnd, event.span.to, text);
    }
}
