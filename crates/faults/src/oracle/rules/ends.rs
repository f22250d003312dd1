//! Every job comes until it has an end, and not after it.

use super::super::story::Story;
use super::super::verdict::{Defect, Verdict};
use super::Context;
use crate::history::{Moment, Operation, Outcome, Request};

pub(super) fn never_after_its_end(story: &Story<'_>, context: Context<'_>, verdict: &mut Verdict) {
    let Some(end) = lasting_end(story, context) else {
        return;
    };
    let how = told(end);
    let came = story.deliveries.iter().map(|it| (it.begun, "came"));
    let shown = story.peeks.iter().map(|at| (*at, "was shown"));
    for (at, seen) in came.chain(shown) {
        let after = at.saturating_sub(end.span.to);
        if after > 0 {
            let text = format!("{} {seen} {after} µs after it was {how}", story.name());
            verdict.find(Defect::AfterItsEnd, at, text);
        }
    }
}

/// The first of the acknowledged ends that Redis cannot have lost.
pub(super) fn lasting_end<'a>(story: &Story<'a>, context: Context<'a>) -> Option<&'a Operation> {
    let done = story.ends.iter().copied().filter(|end| is_done(end));
    let done = done.chain(context.queues.purged(story, context.windows));
    let lasting = done.filter(|end| !context.windows.may_lose(end.span));
    lasting.min_by_key(|end| end.span.to)
}

fn is_done(end: &Operation) -> bool {
    matches!(end.outcome, Outcome::Deleted | Outcome::Published(_))
}

fn told(end: &Operation) -> &'static str {
    match end.request {
        Request::Cancel { .. } => "cancelled",
        Request::Republish { .. } => "replaced",
        Request::PurgeReady { .. } => "purged",
        _ => "acked",
    }
}

/// Whether a client can have ended it after it was seen last.
pub(in super::super) fn may_have_ended(story: &Story<'_>, context: Context<'_>) -> bool {
    let last_seen = story.last_seen(context.windows);
    may_have_been_ended_after(story, last_seen, context)
        || context.queues.may_have_purged(story, context.windows)
}

fn may_have_been_ended_after(story: &Story<'_>, last_seen: Moment, context: Context<'_>) -> bool {
    let can_be = |end: &&Operation| {
        let may_be_done = is_done(end) || end.outcome.is_open();
        may_be_done && context.windows.carried_out_by(end) >= last_seen
    };
    story.ends.iter().any(can_be)
}

pub(super) fn never_lost(story: &Story<'_>, context: Context<'_>, verdict: &mut Verdict) {
    if !story.is_published() || may_have_ended(story, context) || may_have_expired(story, context) {
        return;
    }
    if context.windows.may_lose_jobs(story.published.span) {
        verdict.counts.lost_with_redis += 1;
        return;
    }
    let came = match story.deliveries.len() {
        0 => "never came".to_owned(),
        times => format!("came {times} times and not again"),
    };
    let text = format!("{} of {} tries {came}", story.name(), story.terms.tries);
    verdict.find(Defect::Lost, story.published.span.to, text);
}

/// Whether it can have expired before it had to come again.
fn may_have_expired(story: &Story<'_>, context: Context<'_>) -> bool {
    // While a job has tries a taking that nobody knows of may have held it up.
    let (available, takes) = story.available();
    let expires = story.created() + story.terms.ttl;
    let deadline = context.windows.deadline(story.queue, available, takes);
    story.terms.ttl > 0 && (expires <= deadline || !story.keeps_time)
}
