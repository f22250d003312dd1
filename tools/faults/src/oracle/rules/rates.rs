//! No more jobs are delivered in a time than the rate of their queue allows.
//!
//! The unit of a delivery was taken after its request was sent, and before its lease began.

use super::context::RuleContext;
use super::held::HeldQueueHistory;
use crate::history::{DeliveryRate, Span};
use crate::oracle::verdict::{Defect, Verdict};

pub(super) fn judge(held: &HeldQueueHistory<'_>, context: RuleContext<'_>, verdict: &mut Verdict) {
    let Some(rate) = held.queue.rate else {
        return;
    };
    let mut taken: Vec<Span> = held.deliveries.iter().map(|it| it.unit_taken()).collect();
    taken.sort_by_key(|span| span.to);
    let mut begins: Vec<u64> = taken.iter().map(|span| span.from).collect();
    begins.sort_unstable();
    begins.dedup();
    let mut judged_until = 0;
    for from in begins {
        if from < judged_until {
            continue;
        }
        let over = first_over(&taken, from, rate);
        if let Some((window, count)) = over
            && context.excuses.enforces_policies(window)
        {
            let ms = window.to.saturating_sub(window.from) / 1000;
            let queue = held.queue.queue;
            let text = format!("{count} jobs of queue {queue} were delivered in {ms} ms");
            verdict.add_finding(Defect::OverRate, window.to, text);
            judged_until = window.to;
        }
    }
}

/// Returns the shortest span from `from` on with more units than the rate allows, and their number.
fn first_over(taken: &[Span], from: u64, rate: DeliveryRate) -> Option<(Span, u64)> {
    let within = taken.iter().filter(|it| it.from >= from);
    (1..).zip(within).find_map(|(count, it)| {
        let to = it.to;
        let is_over = count > rate.largest_number_in(to.saturating_sub(from));
        is_over.then_some((Span { from, to }, count))
    })
}
