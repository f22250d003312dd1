//! A repeated request with the same idempotency key returns the job of the first one, and changes nothing.

use super::context::RuleContext;
use crate::history::Span;
use crate::oracle::verdict::{Defect, Verdict};
use crate::oracle::version::{PublishEffect, VersionHistory};

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
