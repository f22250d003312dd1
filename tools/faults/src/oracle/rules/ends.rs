//! Rules about the end of a job: it is delivered until it has ended, and not after that.

use super::super::job_history::JobHistory;
use super::super::verdict::{Defect, Verdict};
use super::context::RuleContext;
use crate::history::{ClientRequest, Operation, RequestOutcome, Span, UnixMicros};

pub(super) fn never_after_its_end(
    job_history: &JobHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let Some(end) = lasting_end(job_history, context) else {
        return;
    };
    let how = end_name(end);
    let came = job_history
        .deliveries
        .iter()
        .map(|it| (it.lease_begin, "came"));
    let shown = job_history.peeks.iter().map(|at| (*at, "was shown"));
    for (at, seen) in came.chain(shown) {
        let after = at.saturating_sub(end.span.to);
        if after > 0 {
            let text = format!(
                "{} {seen} {after} µs after it was {how}",
                job_history.name()
            );
            verdict.add_finding(Defect::AfterItsEnd, at, text);
        }
    }
}

/// Returns the first acknowledged end that Redis cannot have lost.
pub(super) fn lasting_end<'a>(
    job_history: &JobHistory<'a>,
    context: RuleContext<'a>,
) -> Option<&'a Operation> {
    let done = job_history
        .ends
        .iter()
        .copied()
        .filter(|end| has_ended_job(end));
    let done = done.chain(context.queues.purged(job_history, context.excuses));
    let lasting = done.filter(|end| !context.excuses.may_lose(end.span));
    lasting.min_by_key(|end| end.span.to)
}

fn has_ended_job(end: &Operation) -> bool {
    matches!(
        end.outcome,
        RequestOutcome::Deleted | RequestOutcome::Published(_)
    )
}

fn end_name(end: &Operation) -> &'static str {
    match end.request {
        ClientRequest::Cancel { .. } => "cancelled",
        ClientRequest::Republish { .. } => "replaced",
        ClientRequest::PurgeReady { .. } => "purged",
        _ => "acked",
    }
}

/// Whether a client can have ended the job after it was last observed.
pub(in crate::oracle) fn may_have_ended(
    job_history: &JobHistory<'_>,
    context: RuleContext<'_>,
) -> bool {
    let last_seen = job_history.last_observed(context.excuses);
    may_have_been_ended_after(job_history, last_seen, context)
        || context.queues.may_have_purged(job_history, context.excuses)
}

fn may_have_been_ended_after(
    job_history: &JobHistory<'_>,
    last_seen: UnixMicros,
    context: RuleContext<'_>,
) -> bool {
    let can_be = |end: &&Operation| {
        let may_be_done = has_ended_job(end) || end.outcome.is_unknown();
        may_be_done && context.excuses.carried_out_by(end) >= last_seen
    };
    job_history.ends.iter().any(can_be)
}

pub(super) fn never_lost(
    job_history: &JobHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    if !job_history.is_published()
        || may_have_ended(job_history, context)
        || may_have_expired(job_history, context)
    {
        return;
    }
    if context.excuses.may_lose_jobs(job_history.published.span) {
        verdict.counts.lost_with_redis += 1;
        return;
    }
    let came = match job_history.deliveries.len() {
        0 => "never came".to_owned(),
        times => format!("came {times} times and not again"),
    };
    let text = format!(
        "{} of {} tries {came}",
        job_history.name(),
        job_history.terms.tries
    );
    verdict.add_finding(Defect::Lost, job_history.published.span.to, text);
}

/// Whether the job can have expired before it had to be delivered again.
fn may_have_expired(job_history: &JobHistory<'_>, context: RuleContext<'_>) -> bool {
    // While a job has tries left, unobserved reservations may have delayed it.
    let (available, takes) = job_history.available();
    let expires = job_history.created() + job_history.terms.ttl;
    let deadline = context
        .excuses
        .deadline(job_history.queue, available, takes);
    // The clock that decides may have been wrong only after the job was last seen.
    let waited = Span {
        from: job_history.created(),
        to: deadline,
    };
    let has_reliable_times =
        job_history.has_reliable_times && context.excuses.has_reliable_clock(waited);
    job_history.terms.ttl > 0 && (expires <= deadline || !has_reliable_times)
}
