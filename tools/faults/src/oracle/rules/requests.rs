//! Rules about the answers of single requests.

use std::collections::{BTreeMap, HashMap};

use super::super::excuses::has_full_memory;
use super::super::job_history::JobHistory;
use super::super::verdict::{Defect, Verdict};
use super::context::RuleContext;
use super::ends;
use crate::history::{
    ClientRequest, Episode, HUNG_UP, History, NOT_CONFIRMED, NativeCall, Operation, RequestOutcome,
};

/// A peek by id must show a job that certainly exists.
pub(in crate::oracle) fn peeked(
    history: &History,
    job_histories: &BTreeMap<u64, JobHistory<'_>>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for operation in &history.operations {
        let ClientRequest::Peek { job: Some(job), .. } = &operation.request else {
            continue;
        };
        let Some(job_history) = job_histories.get(job) else {
            continue;
        };
        match &operation.outcome {
            RequestOutcome::Peeked(None) if is_there(job_history, operation, context) => {
                let text = format!("{} was not shown", job_history.name());
                verdict.add_finding(Defect::Lost, operation.span.to, text);
            }
            RequestOutcome::Peeked(Some(got)) if got.number != Some(*job) => {
                let text = format!("{} was shown as another one", job_history.name());
                verdict.add_finding(Defect::Foreign, operation.span.to, text);
            }
            _ => {}
        }
    }
}

/// The head of a dead letter must be a job of that queue that has not ended.
pub(in crate::oracle) fn peeked_dead(
    history: &History,
    job_histories: &BTreeMap<u64, JobHistory<'_>>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let with_ids = job_histories
        .values()
        .filter_map(|job_history| Some((job_history.id?, job_history)));
    let by_id: HashMap<&str, &JobHistory<'_>> = with_ids.collect();
    for operation in &history.operations {
        let (ClientRequest::PeekDead { queue }, RequestOutcome::DeadLetter { head: Some(id), .. }) =
            (&operation.request, &operation.outcome)
        else {
            continue;
        };
        let Some(job_history) = by_id.get(id.as_str()) else {
            continue;
        };
        let name = job_history.name();
        if job_history.queue != *queue {
            let text = format!("{name} is in the dead letter of queue {queue}");
            verdict.add_finding(Defect::Foreign, operation.span.to, text);
        }
        let end = ends::lasting_end(job_history, context);
        if end.is_some_and(|end| end.span.to < operation.span.from) {
            let text = format!("{name} is in the dead letter after its end");
            verdict.add_finding(Defect::AfterItsEnd, operation.span.to, text);
        }
    }
}

/// Whether a job certainly existed during a peek.
fn is_there(job_history: &JobHistory<'_>, peek: &Operation, context: RuleContext<'_>) -> bool {
    let windows = context.excuses;
    let may_be_done = |end: &&Operation| {
        let was_sent = !matches!(
            end.outcome,
            RequestOutcome::NotSent | RequestOutcome::Refused(_)
        );
        was_sent && end.span.from <= peek.span.to
    };
    let expires = job_history.created() + job_history.terms.ttl;
    let lives =
        job_history.terms.ttl == 0 || (expires > peek.span.to && job_history.has_reliable_times);
    job_history.is_published()
        && job_history.published.span.to < peek.span.from
        && lives
        && !job_history.ends.iter().any(may_be_done)
        && !context.queues.may_have_purged(job_history, windows)
        && !windows.may_lose_jobs(job_history.published.span)
        && !windows.may_lose(peek.span)
}

/// A request may fail only during a fault that affects it. Full memory affects only requests that store
/// something.
pub(in crate::oracle) fn refused_without_reason(history: &History, verdict: &mut Verdict) {
    for operation in history.operations.iter().filter(|it| has_failed(it)) {
        let span = operation.span;
        let is_busy = history.busy.iter().any(|busy| busy.overlaps(&span));
        if is_busy || may_meet_closed_connection(history, operation) {
            continue;
        }
        let stores = matches!(
            operation.request,
            ClientRequest::Publish { .. }
                | ClientRequest::Native(NativeCall::Publish { .. })
                | ClientRequest::Republish { .. }
                | ClientRequest::Respawn { .. }
                | ClientRequest::Revoke { .. }
        );
        let queues = operation.request.queues();
        let is_reason = |episode: &&Episode| {
            episode.affects(&span)
                && episode.class.fails_requests()
                && !episode.does_not_affect(queues, span.from)
                && (stores || !has_full_memory(episode, span))
        };
        if !history.episodes.iter().any(|it| is_reason(&it)) {
            let text = format!("{:?}: {:?}", operation.request, operation.outcome);
            verdict.add_finding(Defect::Refused, span.to, text);
        }
    }
}

/// Whether a request without an answer may have been sent on an idle connection that an API closed as it stopped.
fn may_meet_closed_connection(history: &History, operation: &Operation) -> bool {
    let sent_at = operation.span.from;
    let mut closed = history.episodes.iter().flat_map(|it| &it.idle_closed);
    matches!(operation.outcome, RequestOutcome::Unknown(_))
        && closed.any(|closed| (closed.from..=closed.to).contains(&sent_at))
}

/// Whether a request failed, and neither its client nor a proxy caused that.
fn has_failed(operation: &Operation) -> bool {
    match &operation.outcome {
        RequestOutcome::Failed(status) => *status != NOT_CONFIRMED,
        RequestOutcome::Unknown(why) => why != HUNG_UP && operation.is_without_proxy,
        _ => false,
    }
}
