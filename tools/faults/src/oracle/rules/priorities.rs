//! Higher priorities are first, and none starves.
//!
//! Every eighth job has a lower priority than those before, if there is one. So while a job waits, there are at least
//! seven jobs between two of lower priorities. These eighth places go to one priority after the other: a model of all
//! states of the counters, in which any priorities have jobs at any time, leaves out a priority that has jobs for four
//! rounds of eight at most.

use std::collections::BTreeSet;

use super::context::RuleContext;
use super::held::{HeldQueueHistory, LineDelivery, WaitingJob};
use crate::history::Span;
use crate::oracle::verdict::{Defect, Verdict};

/// Jobs of which the last one has a lower priority.
const ROUND: usize = 8;
const PRIORITIES: usize = 5;
/// The largest number of jobs of other priorities that are leased one after the other while a job waits.
const PASSED_MAX: usize = ROUND * (PRIORITIES - 1);

pub(super) fn judge(held: &HeldQueueHistory<'_>, context: RuleContext<'_>, verdict: &mut Verdict) {
    never_passed_over(held, context, verdict);
    never_starved(held, context, verdict);
}

fn never_passed_over(held: &HeldQueueHistory<'_>, context: RuleContext<'_>, verdict: &mut Verdict) {
    let mut found = BTreeSet::new();
    for waiting in &held.waiting {
        let priority = waiting.line.priority;
        let lower = held.within(waiting.ready);
        let lower: Vec<_> = lower.filter(|it| it.line.priority < priority).collect();
        for pair in lower.windows(2) {
            let during = spanned(pair);
            let others = held.possibly_within(during).count() - pair.len();
            if others + 1 < ROUND
                && held.shows_turns(waiting, during, context)
                && found.insert((priority, during.to))
            {
                let text = format!(
                    "{} ({}) waited, and two jobs of lower priorities came with {others} between them",
                    waiting.version.name(),
                    waiting.line.name()
                );
                verdict.add_finding(Defect::OutOfOrder, during.to, text);
            }
        }
    }
}

fn never_starved(held: &HeldQueueHistory<'_>, context: RuleContext<'_>, verdict: &mut Verdict) {
    let mut found = BTreeSet::new();
    for waiting in &held.waiting {
        let priority = waiting.line.priority;
        let others = held.within(waiting.ready);
        let others: Vec<_> = others.filter(|it| it.line.priority != priority).collect();
        let starving = others
            .windows(PASSED_MAX + 1)
            .map(spanned)
            .find(|during| is_starving(held, waiting, *during, context));
        if let Some(during) = starving
            && found.insert((priority, during.to))
        {
            let text = format!(
                "{} ({}) waited while more than {PASSED_MAX} jobs of other priorities came",
                waiting.version.name(),
                waiting.line.name()
            );
            verdict.add_finding(Defect::Starved, during.to, text);
        }
    }
}

/// Whether no job of the priority came in this span, although there was one all the time.
fn is_starving(
    held: &HeldQueueHistory<'_>,
    waiting: &WaitingJob<'_>,
    during: Span,
    context: RuleContext<'_>,
) -> bool {
    let mut came = held.possibly_within(during);
    !came.any(|it| it.line.priority == waiting.line.priority)
        && held.shows_turns(waiting, during, context)
}

/// Returns the span of deliveries that are sorted by begin.
fn spanned(deliveries: &[&LineDelivery<'_>]) -> Span {
    let begun = deliveries.iter().map(|it| it.begin());
    Span {
        from: begun.clone().map(|it| it.from).min().unwrap_or_default(),
        to: begun.map(|it| it.to).max().unwrap_or_default(),
    }
}
