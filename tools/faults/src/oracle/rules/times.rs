//! A job must be delivered neither before it is due nor after it has expired, by Redis's clock and
//! by the clients'.

use super::super::cut::truncate_to_ms;
use super::super::job_history::{JobHistory, ObservedDelivery};
use super::super::verdict::{Defect, Verdict};
use super::context::RuleContext;
use crate::history::Span;

/// An expiry counts from the end of the current ms.
const MS: u64 = 1000;

pub(super) fn never_early(job_history: &JobHistory<'_>, verdict: &mut Verdict) {
    let name = job_history.name();
    for ObservedDelivery { got, span, .. } in &job_history.deliveries {
        // It cannot have been stored before its publish began, even if its id says so.
        let created = got
            .created
            .max(truncate_to_ms(job_history.published.span.from));
        let due = created + job_history.terms.delay;
        let early = due.saturating_sub(got.reserved().min(span.to));
        if early > 0 {
            let text = format!("{name} came {early} µs before it was due");
            verdict.add_finding(Defect::Early, span.to, text);
        }
    }
}

/// A dead job does not expire.
pub(super) fn never_expired(
    job_history: &JobHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let expires = job_history.created() + job_history.terms.ttl + MS;
    for ObservedDelivery { got, span, .. } in &job_history.deliveries {
        let over = got.reserved().saturating_sub(expires);
        let life = Span {
            from: job_history.published.span.from,
            to: got.reserved(),
        };
        let respawned = || {
            context
                .queues
                .respawned_in(job_history.queue, life, context.excuses)
        };
        if job_history.terms.ttl > 0 && over > 0 && respawned().is_none() {
            let text = format!("{} came {over} µs after it had expired", job_history.name());
            verdict.add_finding(Defect::AfterItsEnd, span.to, text);
        }
    }
}
