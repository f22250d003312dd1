//! Requests about jobs: acks, settles, cancels, changes, promotes and shows.

use tidegate_core::v1::consume::Outcome;

use super::super::excuses::Excuses;
use super::super::job::{EventKind, JobEvent};
use super::super::observed::Observed;
use crate::history::{
    CancelEffect, ClientRequest, HeldJob, History, JobAddress, Operation, RequestOutcome,
    SettleAction, Span, UnixMicros, truncate_to_ms,
};

const MS: u64 = 1000;

/// Adds the requests that were carried out, or may have been, to their jobs.
pub(super) fn collect(history: &History, excuses: &Excuses<'_>, observed: &mut Observed<'_>) {
    for operation in &history.operations {
        if !operation.outcome.is_refused() {
            add(operation, excuses, observed);
        }
    }
}

fn add(operation: &Operation, excuses: &Excuses<'_>, observed: &mut Observed<'_>) {
    let span = operation.span;
    let by = excuses.carried_out_by(operation);
    let mut push = |id: &str, kind| {
        if let Some(job) = observed.jobs.get_mut(id) {
            job.events.push(JobEvent { span, by, kind });
        }
    };
    match &operation.request {
        ClientRequest::Settle { action, jobs } => {
            let results = match &operation.outcome {
                RequestOutcome::Settled(results) => results.as_slice(),
                _ => &[],
            };
            for (index, held) in jobs.iter().enumerate() {
                push(
                    &held.id,
                    settled(held, *action, results.get(index).copied()),
                );
            }
        }
        ClientRequest::Publish {
            replaced: Some(id), ..
        } => {
            let is_done = matches!(operation.outcome, RequestOutcome::Published(_));
            let effect = is_done.then_some(CancelEffect::Gone);
            push(id, EventKind::Cancelled(effect));
        }
        request => {
            if let Some((queue, address)) = request.job()
                && let Some((id, kind)) = edit(request, &operation.outcome, span, by)
            {
                for id in edited(observed, queue, address, id) {
                    if let Some(job) = observed.jobs.get_mut(&id) {
                        let kind = kind.clone();
                        job.events.push(JobEvent { span, by, kind });
                    }
                }
            }
        }
    }
}

const fn settled(held: &HeldJob, action: SettleAction, result: Option<Outcome>) -> EventKind {
    EventKind::Settled {
        attempt: held.attempt,
        number: held.number,
        action,
        result,
    }
}

/// Returns the ids of the job in the answer; without an answer of all jobs that the request may have meant.
fn edited(
    observed: &Observed<'_>,
    queue: u16,
    address: &JobAddress,
    id: Option<&str>,
) -> Vec<String> {
    match (id, address) {
        (Some(id), _) => vec![id.to_owned()],
        (None, JobAddress::Id(id)) => vec![id.clone()],
        (None, JobAddress::Key(key)) => {
            let jobs = observed.jobs_of_key(queue, *key);
            jobs.map(|job| job.id.clone()).collect()
        }
    }
}

/// Returns the id in the answer to a cancel, change, promote or show, and what the request did; `None` if it did
/// nothing.
fn edit<'a>(
    request: &ClientRequest,
    outcome: &'a RequestOutcome,
    span: Span,
    by: UnixMicros,
) -> Option<(Option<&'a str>, EventKind)> {
    Some(match (request, outcome) {
        (_, RequestOutcome::NotFound | RequestOutcome::Conflict) => return None,
        (ClientRequest::Cancel { .. }, RequestOutcome::Cancelled { id, effect }) => {
            (Some(id), EventKind::Cancelled(Some(*effect)))
        }
        (ClientRequest::Cancel { .. }, _) => (None, EventKind::Cancelled(None)),
        (ClientRequest::Change { .. }, RequestOutcome::Due { id, run_at }) => {
            let due = Span {
                from: *run_at,
                to: *run_at,
            };
            let is_certain = true;
            (Some(id), EventKind::Changed { due, is_certain })
        }
        (ClientRequest::Change { delay, run_at, .. }, _) => {
            let due = possible_due(*delay, *run_at, span, by);
            let is_certain = false;
            (None, EventKind::Changed { due, is_certain })
        }
        (ClientRequest::Promote { .. }, RequestOutcome::Due { id, .. }) => {
            (Some(id), EventKind::Promoted { is_certain: true })
        }
        (ClientRequest::Promote { .. }, _) => (None, EventKind::Promoted { is_certain: false }),
        (ClientRequest::Show { .. }, RequestOutcome::Shown(shown)) => {
            (Some(&shown.id), EventKind::Shown((**shown).clone()))
        }
        _ => return None,
    })
}

/// Returns when a job can be due after a change that has no answer.
fn possible_due(delay: u64, run_at: Option<UnixMicros>, span: Span, by: UnixMicros) -> Span {
    match run_at {
        Some(at) => Span {
            from: at,
            to: at.max(by),
        },
        None => Span {
            from: truncate_to_ms(span.from) + delay,
            to: by.saturating_add(delay + MS),
        },
    }
}
