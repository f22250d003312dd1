//! Rules for jobs during whose life the clock of Redis was moved. Due times and leases use that clock, and ids and
//! answers contain its times, so they cannot be compared with the clients' clock.

use super::super::job_history::JobHistory;
use super::super::verdict::{Defect, Verdict};
use super::context::RuleContext;
use crate::history::Span;

/// A job that was published before the clock was moved must not be late after the clock is correct again.
pub(super) fn never_late(
    job_history: &JobHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let Some(first) = job_history.deliveries.first() else {
        return;
    };
    let published = job_history.published.span;
    let is_first = first.got.tries_left + 1 == job_history.terms.tries;
    if !is_first || !context.excuses.has_reliable_clock(published) {
        return;
    }
    // A job with one try may have been delivered unobserved, died, and been respawned.
    let life = Span {
        from: published.from,
        to: first.span.to,
    };
    let respawned = context
        .queues
        .respawned_in(job_history.queue, life, context.excuses);
    if job_history.terms.tries == 1 && respawned.is_some() {
        return;
    }
    let available = published.to + job_history.terms.delay;
    let deadline = context.excuses.deadline(job_history.queue, available, 0);
    let over = first.span.to.saturating_sub(deadline);
    if over > 0 {
        let text = format!(
            "{} came {} ms after its window, which the clock of Redis does not change",
            job_history.name(),
            over / 1000
        );
        verdict.add_finding(Defect::Late, first.span.to, text);
    }
}
