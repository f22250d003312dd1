//! What still holds for a job while the clock of Redis is moved. Due times and leases count from that clock, and ids and
//! answers show its times, so they cannot be held against the clients' clock.

use super::super::story::Story;
use super::super::verdict::{Defect, Verdict};
use super::Context;

/// Every job comes, unless a request or its time to live may have ended it. And a clock that is right again makes no job
/// late that was published before it was wrong.
pub(super) fn apply(story: &Story<'_>, context: Context<'_>, verdict: &mut Verdict) {
    match story.deliveries.first() {
        None => never_lost(story, context, verdict),
        Some(first) => {
            let published = story.published.span;
            let was_before = context.windows.has_right_clock(published);
            let is_first = first.got.tries_left + 1 == story.terms.tries;
            if !(was_before && is_first) {
                return;
            }
            let available = published.to + story.terms.delay;
            let deadline = context.windows.deadline(story.queue, available, 0);
            if first.span.to > deadline {
                let over_ms = (first.span.to - deadline) / 1000;
                let text = format!(
                    "{} came {over_ms} ms after its window, which the clock of Redis does not change",
                    story.name()
                );
                verdict.find(Defect::Late, first.span.to, text);
            }
        }
    }
}

fn never_lost(story: &Story<'_>, context: Context<'_>, verdict: &mut Verdict) {
    let may_be_gone = story.terms.ttl > 0
        || !story.ends.is_empty()
        || context.queues.was_purged(story.queue)
        || context.windows.may_lose_jobs(story.published.span);
    if story.is_published() && !may_be_gone {
        let text = format!("{} never came", story.name());
        verdict.find(Defect::Lost, story.published.span.to, text);
    }
}
