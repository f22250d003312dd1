//! Rules about the answers of single requests.

use crate::history::{
    Episode, HUNG_UP, History, NOT_CONFIRMED, Operation, RequestOutcome, VersionResult, Wire,
};
use crate::oracle::excuses::has_full_memory;
use crate::oracle::verdict::{Defect, Verdict};

/// The statuses of requests that are invalid or forbidden.
const INVALID: [u16; 7] = [400, 401, 403, 405, 413, 415, 422];

pub(super) fn judge(history: &History, verdict: &mut Verdict) {
    for operation in &history.operations {
        if (has_failed(operation) && !may_fail(history, operation)) || is_rejected(operation) {
            let text = format!("{:?}: {:?}", operation.request, operation.outcome);
            verdict.add_finding(Defect::Refused, operation.span.to, text);
        }
    }
}

/// Whether a fault affects a request. Full memory affects only requests that store something.
fn may_fail(history: &History, operation: &Operation) -> bool {
    let span = operation.span;
    let queues = operation.request.queues();
    let is_reason = |episode: &Episode| {
        episode.affects(&span)
            && episode.class.fails_requests()
            && !episode.does_not_affect(queues, span.from)
            && (operation.request.stores() || !has_full_memory(episode, span))
    };
    history.busy.iter().any(|busy| busy.overlaps(&span))
        || may_meet_closed_connection(history, operation)
        || history.episodes.iter().any(is_reason)
}

/// Whether a request of a native client was invalid or forbidden. Tokens of the lmstfy wire are revoked.
fn is_rejected(operation: &Operation) -> bool {
    let is_invalid = match &operation.outcome {
        RequestOutcome::Refused(status) => INVALID.contains(status),
        RequestOutcome::Published(results) => results
            .iter()
            .any(|it| matches!(it, VersionResult::Refused(status) if INVALID.contains(status))),
        _ => false,
    };
    is_invalid && operation.wire == Wire::Native
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
