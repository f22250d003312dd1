//! No more jobs of a group are leased at a time than the policy of the queue allows.
//!
//! A job is certainly leased from the end of the ms in which its lease began until its lease ends, or until the first
//! request is sent that may end it.

use std::collections::BTreeMap;

use super::context::RuleContext;
use super::held::{HeldQueueHistory, LineDelivery};
use crate::history::Span;
use crate::oracle::verdict::{Defect, Verdict};

pub(super) fn judge(held: &HeldQueueHistory<'_>, context: RuleContext<'_>, verdict: &mut Verdict) {
    let Some(max) = held.queue.group_max_running else {
        return;
    };
    let mut groups: BTreeMap<u8, Vec<&LineDelivery<'_>>> = BTreeMap::new();
    for delivery in held
        .deliveries
        .iter()
        .filter(|it| it.job.has_reliable_times)
    {
        if let Some(group) = delivery.line.group {
            groups.entry(group).or_default().push(delivery);
        }
    }
    for (group, deliveries) in groups {
        for (place, newest) in deliveries.iter().enumerate() {
            let at = newest.begin().to;
            let is_held = |it: &&&LineDelivery<'_>| it.held_at_least_until(at) > at;
            let running: Vec<_> = deliveries[..=place].iter().filter(is_held).collect();
            let first = running.iter().map(|it| it.begin().from).min();
            let during = Span {
                from: first.unwrap_or(at),
                to: at,
            };
            let count = running.len() as u64;
            if count > max && context.excuses.enforces_policies(during) {
                let text = text(held, group, &running);
                verdict.add_finding(Defect::OverMaxRunning, at, text);
            }
        }
    }
}

fn text(held: &HeldQueueHistory<'_>, group: u8, running: &[&&LineDelivery<'_>]) -> String {
    let (queue, count) = (held.queue.queue, running.len());
    let ids: Vec<&str> = running.iter().map(|it| it.job.id.as_str()).collect();
    let ids = ids.join(", ");
    format!("{count} jobs of group {group} of queue {queue} were leased at a time: {ids}")
}
