//! What holds for a job in whose life the clock of Redis was moved. Due times and leases count from that clock, and ids and
//! answers show its times, so they cannot be compared with the clients' clock.

use super::super::story::Story;
use super::super::verdict::{Defect, Verdict};
use super::Context;
use crate::history::Span;

/// A clock that is right again makes no job late that was published before it was wrong.
pub(super) fn never_late(story: &Story<'_>, context: Context<'_>, verdict: &mut Verdict) {
    let Some(first) = story.deliveries.first() else {
        return;
    };
    let published = story.published.span;
    let is_first = first.got.tries_left + 1 == story.terms.tries;
    if !is_first || !context.windows.keeps_time(published) {
        return;
    }
    // A job with one attempt may have been delivered unseen, died, and been respawned.
    let life = Span {
        from: published.from,
        to: first.span.to,
    };
    let respawned = context
        .queues
        .respawned_in(story.queue, life, context.windows);
    if story.terms.tries == 1 && respawned.is_some() {
        return;
    }
    let available = published.to + story.terms.delay;
    let deadline = context.windows.deadline(story.queue, available, 0);
    let over = first.span.to.saturating_sub(deadline);
    if over > 0 {
        let text = format!(
            "{} came {} ms after its window, which the clock of Redis does not change",
            story.name(),
            over / 1000
        );
        verdict.find(Defect::Late, first.span.to, text);
    }
}
