//! Not before it is due, not after it has expired: by Redis's clock, and by the clients'.

use super::super::story::{Delivery, Story, cut};
use super::super::verdict::{Defect, Verdict};
use super::Context;
use crate::history::Span;

/// An expiry counts from the end of a ms.
const MS: u64 = 1000;

pub(super) fn never_early(story: &Story<'_>, verdict: &mut Verdict) {
    let name = story.name();
    for Delivery { got, span, .. } in &story.deliveries {
        // Whatever its id says, it was not stored before its publish began.
        let created = got.created.max(cut(story.published.span.from));
        let due = created + story.terms.delay;
        let early = due.saturating_sub(got.reserved().min(span.to));
        if early > 0 {
            let text = format!("{name} came {early} µs before it was due");
            verdict.find(Defect::Early, span.to, text);
        }
    }
}

/// A job that died does not expire any more.
pub(super) fn never_expired(story: &Story<'_>, context: Context<'_>, verdict: &mut Verdict) {
    let expires = story.created() + story.terms.ttl + MS;
    for Delivery { got, span, .. } in &story.deliveries {
        let over = got.reserved().saturating_sub(expires);
        let life = Span {
            from: story.published.span.from,
            to: got.reserved(),
        };
        let respawned = || {
            context
                .queues
                .respawned_in(story.queue, life, context.windows)
        };
        if story.terms.ttl > 0 && over > 0 && respawned().is_none() {
            let text = format!("{} came {over} µs after it had expired", story.name());
            verdict.find(Defect::AfterItsEnd, span.to, text);
        }
    }
}
