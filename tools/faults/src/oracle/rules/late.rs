//! A job must not be delivered after its window.

use super::super::job_history::{JobHistory, ObservedDelivery};
use super::super::verdict::{Defect, Lateness, Verdict};
use super::context::RuleContext;
use super::tries::{Availability, Explanation};
use crate::history::Span;

pub(super) fn never_late(
    job_history: &JobHistory<'_>,
    delivery: &ObservedDelivery<'_>,
    step: &Explanation,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let came = delivery.span.to;
    let ready = step.ready.map(|it| (it.available, it.takes));
    let respawned = step.respawned.map(|at| (at, 0));
    // If there are two explanations of the delivery, the one with the later deadline counts.
    let ways = ready.into_iter().chain(respawned);
    let ways = ways.map(|(available, takes)| {
        let deadline = context
            .excuses
            .deadline(job_history.queue, available, takes);
        (deadline, available)
    });
    let Some((deadline, available)) = ways.max() else {
        return;
    };
    let late = came.saturating_sub(available);
    if came > deadline {
        let over_ms = (came - deadline) / 1000;
        let text = format!(
            "{} came {} ms after it was due, {over_ms} ms after its window",
            job_history.name(),
            late / 1000
        );
        verdict.add_finding(Defect::Late, came, text);
    }
    if let (
        Some(Availability {
            available,
            takes: 0,
        }),
        None,
    ) = (step.ready, step.respawned)
    {
        let waited = Span {
            from: available,
            to: available + late,
        };
        verdict.lateness.push(Lateness {
            waited,
            late: context
                .excuses
                .requested_time_within(job_history.queue, waited),
        });
    }
}
