//! A stored version is delivered until it ends, and not afterwards. It ends by an ack, by a cancel, or when a newer
//! version replaces it; on the lmstfy wire also by a purge, and when it expires.

use tidegate_core::v1::consume::Outcome;

use super::context::RuleContext;
use crate::history::{CancelEffect, History, RequestOutcome, SettleAction, Span};
use crate::oracle::job::{EventKind, JobEvent, JobHistory};
use crate::oracle::observed::Observed;
use crate::oracle::verdict::{Defect, Verdict};
use crate::oracle::version::{Storing, VersionHistory};

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
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let Some(job) = version.id.as_ref().and_then(|id| observed.jobs.get(id)) else {
        return;
    };
    let ends = ends_of(version, job, observed, context);
    never_after_its_end(version, job, &ends, context, verdict);
    never_lost(version, job, &ends, context, verdict);
}

fn ends_of(
    version: &VersionHistory<'_>,
    job: &JobHistory,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
) -> Vec<VersionEnd> {
    let by_requests = job.events.iter().filter_map(|it| end_by(version, job, it));
    let rivals = observed.rivals(version);
    let by_rivals = rivals.filter_map(|it| end_by_rival(version, it));
    let purge = context.queues.purged(version, job, context.excuses);
    let by_purge = purge.into_iter().map(|purge| VersionEnd {
        at: purge.span,
        is_certain: true,
        how: "purged",
    });
    by_requests.chain(by_rivals).chain(by_purge).collect()
}

/// Returns how a request ends a version, if it does.
fn end_by(version: &VersionHistory<'_>, job: &JobHistory, event: &JobEvent) -> Option<VersionEnd> {
    let is_after = version.stored().to < event.span.from;
    let (is_certain, how) = match &event.kind {
        // On the lmstfy wire an ack of a job with a key counts only while it is leased, whichever version that is.
        EventKind::Settled {
            attempt: None,
            result,
            ..
        } => (job.key.is_none() && result.is_some(), "acknowledged"),
        EventKind::Settled { number, .. } if *number != version.spec.number => return None,
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
    job: &JobHistory,
    ends: &[VersionEnd],
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let number = version.spec.number;
    let certain = ends.iter().filter(|end| end.is_certain);
    for end in certain.filter(|end| !context.excuses.may_lose(end.at)) {
        let deliveries = job.deliveries.iter().filter(|it| it.number == number);
        let deliveries = deliveries.map(|it| (it.begin, it.span.to, "delivered"));
        let peeks = job.events.iter().filter(|it| it.kind == EventKind::Peeked);
        let seen = deliveries.chain(peeks.map(|it| (it.span, it.span.to, "shown")));
        let late = seen.filter(|(begin, ..)| begin.from > end.at.to);
        let Some((begin, seen_at, what)) = late.min_by_key(|(begin, ..)| begin.from) else {
            continue;
        };
        let between = Span {
            from: end.at.from,
            to: begin.to,
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
        let after = begin.from - end.at.to;
        let text = format!(
            "{} was {what} {after} µs after it was {}",
            version.name(),
            end.how
        );
        verdict.add_finding(defect, seen_at, text);
    }
}

fn never_lost(
    version: &VersionHistory<'_>,
    job: &JobHistory,
    ends: &[VersionEnd],
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    if version.storing() != Storing::Certain {
        return;
    }
    let number = version.spec.number;
    let of_version = job.deliveries.iter().filter(|it| it.number == number);
    let deliveries: Vec<Span> = of_version.map(|it| it.begin).collect();
    let stored = version.stored();
    // One without a key has no other version that could have been observed.
    let durable = match job.key {
        None => job.last_observed(context.excuses),
        Some(_) => {
            let durable = deliveries.iter();
            let durable = durable.filter(|begin| !context.excuses.may_lose(**begin));
            durable.map(|begin| begin.from).max()
        }
    };
    let last_seen = durable.unwrap_or(stored.from);
    let may_explain = |end: &VersionEnd| end.how != DEAD && end.at.to >= last_seen;
    if ends.iter().any(may_explain)
        || may_have_expired(version, job, context)
        || (!version.is_native()
            && context
                .queues
                .may_have_purged(version, job, context.excuses))
    {
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
    let what = match deliveries.len() {
        0 => "was never delivered".to_owned(),
        times => format!("was delivered {times} times and not again"),
    };
    verdict.add_finding(
        Defect::Lost,
        stored.to,
        format!("{} {what}", version.name()),
    );
}

/// Whether a job with a time to live can have expired before it had to be delivered again.
fn may_have_expired(
    version: &VersionHistory<'_>,
    job: &JobHistory,
    context: RuleContext<'_>,
) -> bool {
    if version.spec.ttl == 0 {
        return false;
    }
    // While a job has tries left, unobserved reservations may have delayed it.
    let (available, takes) = version.available_after(job);
    let deadline = context.excuses.deadline(job.queue, available, takes);
    // The clock that decides may have been wrong only after the job was last seen.
    let waited = Span {
        from: version.created(),
        to: deadline,
    };
    let has_reliable_times = job.has_reliable_times && context.excuses.has_reliable_clock(waited);
    version.created() + version.spec.ttl <= deadline || !has_reliable_times
}

/// The head of a dead letter must be a job of that queue that has not ended.
pub(super) fn judge_dead_letters(
    history: &History,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for operation in &history.operations {
        let RequestOutcome::DeadLetter(Some(id)) = &operation.outcome else {
            continue;
        };
        let Some(job) = observed.jobs.get(id) else {
            continue;
        };
        let mut add = |defect, what| {
            let text = format!("{} is in the dead letter {what}", job.name());
            verdict.add_finding(defect, operation.span.to, text);
        };
        if !operation.request.queues().contains(&job.queue) {
            add(Defect::Foreign, "of another queue");
        }
        let Some(version) = observed.version_of(job) else {
            continue;
        };
        let is_over = |end: &VersionEnd| {
            end.is_certain
                && end.how != DEAD
                && end.at.to < operation.span.from
                && !context.excuses.may_lose(end.at)
        };
        if ends_of(version, job, observed, context).iter().any(is_over) {
            add(Defect::AfterItsEnd, "after its end");
        }
    }
}

/// No request finds a job after it was done or deleted.
pub(super) fn never_found_after_its_end(
    job: &JobHistory,
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
    let others = job.events.iter();
    let mut others = others.filter(|it| it.shows_unfinished() && it.kind != EventKind::Peeked);
    if let Some(event) = others.find(|event| event.span.from > end.span.to) {
        let text = format!("{} was found by {:?} after its end", job.name(), event.kind);
        verdict.add_finding(Defect::AfterItsEnd, event.span.to, text);
    }
}
