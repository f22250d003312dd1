//! What single requests must not answer.

use std::collections::{BTreeMap, HashMap};

use super::super::story::Story;
use super::super::verdict::{Defect, Verdict};
use super::super::windows::is_full_around;
use super::{Context, ends};
use crate::history::{Episode, HUNG_UP, History, NOT_CONFIRMED, Operation, Outcome, Request};

/// A job that is certainly there must be shown when its id is asked for.
pub(in super::super) fn peeked(
    history: &History,
    stories: &BTreeMap<u64, Story<'_>>,
    context: Context<'_>,
    verdict: &mut Verdict,
) {
    for operation in &history.operations {
        let Request::Peek { job: Some(job), .. } = &operation.request else {
            continue;
        };
        let Some(story) = stories.get(job) else {
            continue;
        };
        match &operation.outcome {
            Outcome::Shown(None) if is_there(story, operation, context) => {
                let text = format!("{} was not shown", story.name());
                verdict.find(Defect::Lost, operation.span.to, text);
            }
            Outcome::Shown(Some(got)) if got.number != Some(*job) => {
                let text = format!("{} was shown as another one", story.name());
                verdict.find(Defect::Foreign, operation.span.to, text);
            }
            _ => {}
        }
    }
}

/// The head of a dead letter is a job of that queue that has no end.
pub(in super::super) fn peeked_dead(
    history: &History,
    stories: &BTreeMap<u64, Story<'_>>,
    context: Context<'_>,
    verdict: &mut Verdict,
) {
    let with_ids = stories
        .values()
        .filter_map(|story| Some((story.id?, story)));
    let by_id: HashMap<&str, &Story<'_>> = with_ids.collect();
    for operation in &history.operations {
        let (Request::PeekDead { queue }, Outcome::DeadLetter { head: Some(id), .. }) =
            (&operation.request, &operation.outcome)
        else {
            continue;
        };
        let Some(story) = by_id.get(id.as_str()) else {
            continue;
        };
        let name = story.name();
        if story.queue != *queue {
            let text = format!("{name} is in the dead letter of queue {queue}");
            verdict.find(Defect::Foreign, operation.span.to, text);
        }
        let end = ends::lasting_end(story, context);
        if end.is_some_and(|end| end.span.to < operation.span.from) {
            let text = format!("{name} is in the dead letter after its end");
            verdict.find(Defect::AfterItsEnd, operation.span.to, text);
        }
    }
}

/// Whether a job was certainly there while it was looked for.
fn is_there(story: &Story<'_>, peek: &Operation, context: Context<'_>) -> bool {
    let windows = context.windows;
    let may_be_done = |end: &&Operation| {
        let was_sent = !matches!(end.outcome, Outcome::NotSent | Outcome::Refused(_));
        was_sent && end.span.from <= peek.span.to
    };
    let expires = story.created() + story.terms.ttl;
    let lives = story.terms.ttl == 0 || (expires > peek.span.to && story.keeps_time);
    story.is_published()
        && story.published.span.to < peek.span.from
        && lives
        && !story.ends.iter().any(may_be_done)
        && !context.queues.may_have_purged(story, windows)
        && !windows.may_lose_jobs(story.published.span)
        && !windows.may_lose(peek.span)
}

/// A request fails only where something is wrong that it needs. Where memory is full it needs to store something.
pub(in super::super) fn refused_without_reason(history: &History, verdict: &mut Verdict) {
    for operation in history.operations.iter().filter(|it| has_failed(it)) {
        let span = operation.span;
        if history.busy.iter().any(|busy| busy.meets(&span)) {
            continue;
        }
        let stores = matches!(
            operation.request,
            Request::Publish { .. }
                | Request::Republish { .. }
                | Request::Respawn { .. }
                | Request::Revoke { .. }
        );
        let queues = operation.request.queues();
        let is_reason = |episode: &&Episode| {
            episode.concerns(&span)
                && episode.class.fails_requests()
                && !episode.spares(queues, span.from)
                && (stores || !is_full_around(episode, span))
        };
        if !history.episodes.iter().any(|it| is_reason(&it)) {
            let text = format!("{:?}: {:?}", operation.request, operation.outcome);
            verdict.find(Defect::Refused, span.to, text);
        }
    }
}

/// Whether a request failed, and its client and the way to it had no part in that.
fn has_failed(operation: &Operation) -> bool {
    match &operation.outcome {
        Outcome::Failed(status) => *status != NOT_CONFIRMED,
        Outcome::Unknown(why) => why != HUNG_UP && operation.is_direct,
        _ => false,
    }
}
