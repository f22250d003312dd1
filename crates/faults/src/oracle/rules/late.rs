//! Not after its window.

use super::super::story::{Delivery, Story};
use super::super::verdict::{Defect, Lateness, Verdict};
use super::Context;
use super::tries::{Ready, Step};
use crate::history::Span;

pub(super) fn never_late(
    story: &Story<'_>,
    delivery: &Delivery<'_>,
    step: &Step,
    context: Context<'_>,
    verdict: &mut Verdict,
) {
    let came = delivery.span.to;
    let ready = step.ready.map(|it| (it.available, it.takes));
    let respawned = step.respawned.map(|at| (at, 0));
    // Where there are two ways in which it can have come, the later one counts.
    let ways = ready.into_iter().chain(respawned);
    let ways = ways.map(|(available, takes)| {
        let deadline = context.windows.deadline(story.queue, available, takes);
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
            story.name(),
            late / 1000
        );
        verdict.find(Defect::Late, came, text);
    }
    if let (
        Some(Ready {
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
            late: context.windows.asked_within(story.queue, waited),
        });
    }
}
