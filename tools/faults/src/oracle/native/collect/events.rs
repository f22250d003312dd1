//! Requests about jobs: acks, settles, cancels, changes, promotes and shows.

use crate::history::{
    ClientRequest, HeldJob, History, JobAddress, NativeAnswer, NativeCall, Operation,
    RequestOutcome, SettleAction, Span, UnixMicros,
};
use crate::oracle::cut::truncate_to_ms;
use crate::oracle::excuses::Excuses;
use crate::oracle::native::job::{EventKind, JobEvent};
use crate::oracle::native::native_history::NativeHistory;
use tidegate_core::v1::consume::Outcome;

const MS: u64 = 1000;

/// Adds the requests that were carried out, or may have been, to their jobs.
pub(super) fn collect(history: &History, excuses: &Excuses<'_>, observed: &mut NativeHistory<'_>) {
    for operation in &history.operations {
        let was_executed = !matches!(
            operation.outcome,
            RequestOutcome::NotSent | RequestOutcome::Refused(_)
        );
        if was_executed {
            add(operation, excuses, observed);
        }
    }
}

fn add(operation: &Operation, excuses: &Excuses<'_>, observed: &mut NativeHistory<'_>) {
    let span = operation.span;
    let by = excuses.carried_out_by(operation);
    match &operation.request {
        ClientRequest::Ack { job } => {
            let version = observed.versions.get(job);
            if let Some(id) = version.and_then(|it| it.id.clone()) {
                let kind = lmstfy_ack(*job, &operation.outcome);
                push(observed, &id, JobEvent { span, by, kind });
            }
        }
        ClientRequest::Native(NativeCall::Settle { action, jobs }) => {
            let results = match &operation.outcome {
                RequestOutcome::Native(NativeAnswer::Settled(results)) => results.as_slice(),
                _ => &[],
            };
            for (index, held) in jobs.iter().enumerate() {
                let kind = settled(held, *action, results.get(index).copied());
                push(observed, &held.id, JobEvent { span, by, kind });
            }
        }
        ClientRequest::Native(call) => {
            let Some((queue, address)) = call.job() else {
                return;
            };
            if let Some((id, kind)) = edit(call, &operation.outcome, span, by) {
                for id in edited(observed, queue, address, id) {
                    let kind = kind.clone();
                    push(observed, &id, JobEvent { span, by, kind });
                }
            }
        }
        _ => {}
    }
}

fn push(observed: &mut NativeHistory<'_>, id: &str, event: JobEvent) {
    if let Some(job) = observed.jobs.get_mut(id) {
        job.events.push(event);
    }
}

fn lmstfy_ack(number: u64, outcome: &RequestOutcome) -> EventKind {
    let is_done = *outcome == RequestOutcome::Deleted;
    EventKind::Settled {
        attempt: None,
        number,
        action: SettleAction::Ack,
        result: is_done.then_some(Outcome::DONE),
    }
}

const fn settled(held: &HeldJob, action: SettleAction, result: Option<Outcome>) -> EventKind {
    EventKind::Settled {
        attempt: Some(held.attempt),
        number: held.number,
        action,
        result,
    }
}

/// Returns the ids of the job in the answer; without an answer of all jobs that the request may have meant.
fn edited(
    observed: &NativeHistory<'_>,
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
    call: &NativeCall,
    outcome: &'a RequestOutcome,
    span: Span,
    by: UnixMicros,
) -> Option<(Option<&'a str>, EventKind)> {
    let answer = match outcome {
        RequestOutcome::Native(NativeAnswer::NotFound | NativeAnswer::Conflict) => return None,
        RequestOutcome::Native(answer) => Some(answer),
        _ => None,
    };
    Some(match (call, answer) {
        (NativeCall::Cancel { .. }, Some(NativeAnswer::Cancelled { id, effect })) => {
            (Some(id), EventKind::Cancelled(Some(*effect)))
        }
        (NativeCall::Cancel { .. }, _) => (None, EventKind::Cancelled(None)),
        (NativeCall::Change { .. }, Some(NativeAnswer::Due { id, run_at })) => {
            let due = Span {
                from: *run_at,
                to: *run_at,
            };
            let is_certain = true;
            (Some(id), EventKind::Changed { due, is_certain })
        }
        (NativeCall::Change { delay, run_at, .. }, _) => {
            let due = possible_due(*delay, *run_at, span, by);
            let is_certain = false;
            (None, EventKind::Changed { due, is_certain })
        }
        (NativeCall::Promote { .. }, Some(NativeAnswer::Due { id, .. })) => {
            (Some(id), EventKind::Promoted { is_certain: true })
        }
        (NativeCall::Promote { .. }, _) => (None, EventKind::Promoted { is_certain: false }),
        (NativeCall::Show { .. }, Some(NativeAnswer::Shown(shown))) => {
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
