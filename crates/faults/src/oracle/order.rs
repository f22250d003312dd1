//! A queue with one lane is first in, first out.
//!
//! Of two jobs one is surely ahead of the other in their queue's list if
//! - both have no delay, and one publish was answered before the other was sent, or both were in one publish; or
//! - the first has no delay, and its publish was answered before the second was due; or
//! - both have a delay, and the first was due in an earlier ms.
//!
//! Then the one that is behind must not be reserved first, as long as nobody was given several lanes and nothing was
//! done to the world from the first publish on. Only first deliveries count, and only if no try is missing.
//!
//! A job that is reserved for a consumer who does not wait any more is given back to the head of the list, at no cost and
//! seen by nobody. Meanwhile others come. So a job may be overtaken while a consumer that waited for its queue leaves
//! with nothing from it: with jobs of another queue, at the end of its time, or by hanging up.

use std::collections::{BTreeMap, HashMap};

use super::rules::Context;
use super::story::{Story, cut};
use super::verdict::{Defect, Verdict};
use crate::fault::Class;
use crate::history::{Moment, Operation, Outcome, Request, Span};

const MS: u64 = 1000;
/// A call to Redis takes less than this part of the bound, and so does giving a job back.
const CALL: u64 = 4;

/// Finds jobs that were overtaken in their queue.
pub(super) fn judge(
    stories: &BTreeMap<u64, Story<'_>>,
    context: Context<'_>,
    verdict: &mut Verdict,
) {
    // From then on a queue may have several lanes, or jobs in two pools.
    let parted = [Class::Lanes, Class::LanesRace, Class::PoolMove];
    let lanes = context.windows.first(&parted);
    let mut queues: HashMap<u16, Vec<Entry<'_, '_>>> = HashMap::new();
    let stories = stories.values();
    for story in stories.filter(|it| context.windows.has_right_clock(it.life())) {
        let entry = Entry::of(story);
        let has_one_lane = |it: &Entry<'_, '_>| lanes.is_none_or(|since| it.reserved < since);
        if let Some(entry) = entry.filter(has_one_lane) {
            queues.entry(story.queue).or_default().push(entry);
        }
    }
    for (queue, mut entries) in queues {
        entries.sort_by_key(|it| it.reserved);
        let left = Left::of(queue, context);
        for (place, entry) in entries.iter().enumerate() {
            let before = &entries[..place];
            let overtaker = before.iter().find(|it| {
                it.reserved < entry.reserved
                    && entry.is_ahead_of(it)
                    && !left.may_have_given_back(it.reserved)
                    && context.windows.is_calm(Span {
                        from: entry.story.published.span.from,
                        to: entry.reserved,
                    })
            });
            if let Some(overtaker) = overtaker {
                let (name, other) = (entry.story.name(), overtaker.story.terms.number);
                let text = format!("{name} came after job {other}, which was behind it");
                verdict.find(Defect::OutOfOrder, entry.reserved, text);
            }
        }
    }
}

/// A job and its first delivery.
struct Entry<'s, 'a> {
    story: &'s Story<'a>,
    reserved: Moment,
    created: Moment,
}

impl<'s, 'a> Entry<'s, 'a> {
    fn of(story: &'s Story<'a>) -> Option<Self> {
        let first = story.deliveries.first()?;
        let is_first = first.got.tries_left + 1 == story.terms.tries;
        (story.is_published() && is_first).then(|| Self {
            story,
            reserved: first.got.reserved(),
            created: first.got.created,
        })
    }

    fn due(&self) -> Moment {
        self.created + self.story.terms.delay
    }

    fn is_ahead_of(&self, other: &Self) -> bool {
        let (publish, behind) = (self.story.published, other.story.published);
        match (self.story.terms.delay, other.story.terms.delay) {
            (0, 0) if std::ptr::eq(publish, behind) => self.story.place < other.story.place,
            (0, 0) => publish.span.to < behind.span.from,
            (0, _) => publish.span.to < other.due(),
            (_, 0) => false,
            (_, _) => self.due() + MS < other.due(),
        }
    }
}

/// When consumers left the line of a queue with nothing from it: jobs on their way to them were given back around then.
struct Left(Vec<Span>);

impl Left {
    fn of(queue: u16, context: Context<'_>) -> Self {
        let call = context.windows.bound / CALL;
        let requests = context.queues.get(queue);
        let consumes = requests.into_iter().flat_map(|it| &it.consumes);
        let left = consumes.filter_map(|consume| left(consume, queue));
        let mut all: Vec<Span> = left
            .map(|left| Span {
                from: left.from.saturating_sub(call),
                to: left.to + 2 * call,
            })
            .collect();
        all.sort_by_key(|span| span.from);
        Self(all)
    }

    fn may_have_given_back(&self, at: Moment) -> bool {
        let begun = self.0.iter().take_while(|span| span.from <= at);
        begun.into_iter().any(|span| at <= span.to)
    }
}

/// When a consume left the line of this queue, if it had nothing from it.
fn left(consume: &Operation, queue: u16) -> Option<Span> {
    let Span { from, to } = consume.span;
    match (&consume.request, &consume.outcome) {
        (Request::Consume { .. }, Outcome::Delivered(jobs)) => match jobs.first() {
            // At the end of its time, which is just before the answer.
            None => Some(Span { from: to, to }),
            Some(first) if first.queue == queue => None,
            Some(first) => Some(Span {
                from: cut(first.reserved()).max(from),
                to,
            }),
        },
        _ => Some(consume.span),
    }
}
