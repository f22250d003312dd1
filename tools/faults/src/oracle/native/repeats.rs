//! A repeated request with the same idempotency key returns the job of the first one, and changes nothing.

use super::version::{PublishEffect, VersionHistory};
use crate::history::{ClientRequest, History, NativeAnswer, RequestOutcome, Span, VersionResult};
use crate::oracle::rules::RuleContext;
use crate::oracle::verdict::{Defect, Verdict};

/// The statuses of requests that are invalid or forbidden.
const INVALID: [u16; 7] = [400, 401, 403, 405, 413, 415, 422];

pub(super) fn judge(version: &VersionHistory<'_>, context: RuleContext<'_>, verdict: &mut Verdict) {
    for (place, later) in version.publishes.iter().enumerate() {
        let PublishEffect::Job {
            id,
            is_replayed,
            outcome,
            ..
        } = &later.effect
        else {
            continue;
        };
        for first in &version.publishes[..place] {
            let PublishEffect::Job { id: known, .. } = &first.effect else {
                continue;
            };
            let both = Span {
                from: first.operation.span.from,
                to: later.by,
            };
            if first.operation.span.to >= later.operation.span.from
                || context.excuses.may_lose(both)
                || !context.excuses.has_reliable_clock(both)
                || !context.excuses.has_one_pool(both)
            {
                continue;
            }
            let is_again = later.has_stored() || (!is_replayed && id != known);
            if is_again || id != known {
                let text = format!(
                    "a repeated publish of {} was answered with {outcome:?} and {id}, the first one with {known}",
                    version.name()
                );
                verdict.add_finding(Defect::Repeated, later.operation.span.to, text);
            }
        }
    }
}

/// No request of a native client is invalid or forbidden.
pub(super) fn rejected(history: &History, verdict: &mut Verdict) {
    for operation in &history.operations {
        let is_invalid = match &operation.outcome {
            RequestOutcome::Refused(status) => INVALID.contains(status),
            RequestOutcome::Native(NativeAnswer::Published(results)) => {
                let mut results = results.iter();
                results.any(
                    |it| matches!(it, VersionResult::Refused(status) if INVALID.contains(status)),
                )
            }
            _ => false,
        };
        if is_invalid && let ClientRequest::Native(call) = &operation.request {
            let text = format!("{call:?}: {:?}", operation.outcome);
            verdict.add_finding(Defect::Refused, operation.span.to, text);
        }
    }
}
