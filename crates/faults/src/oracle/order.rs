//! A queue with one lane is first in, first out.
//!
//! Of two jobs one is surely ahead of the other in their queue's list if
//! - both have no delay, and one publish was answered before the other was sent, or both were in one publish; or
//! - the first has no delay, and its publish was answered before the second was due; or
//! - both have a delay, and the first was due in an earlier ms.
//!
//! Then the one that is behind must not be reserved first, as long as the queue is never given several lanes, the pool has not
//! moved, and nothing was done to the world from the first publish on. Only first deliveries count, and only if no try is missing.
//!
//! A job that is reserved for a consumer who does not wait any more is given back to the head of the list, at no cost and
//! seen by nobody. Meanwhile others come. So a job may be overtaken while a consumer that waited for its queue leaves
//! with nothing from it: with jobs of another queue, at the end of its time, or by hanging up.

use std::collections::{BTreeMap, HashMap};

use super::rules::Context;
use super::story::Story;
use super::verdict::{Defect, Verdict};
use crate::history::{Moment, Span};

const MS: u64 = 1000;

/// Finds jobs that were overtaken in their queue. `laned` are the queues that may have several lanes.
pub(super) fn judge(
    stories: &BTreeMap<u64, Story<'_>>,
    laned: &[u16],
    context: Context<'_>,
    verdict: &mut Verdict,
) {
    let mut queues: HashMap<u16, Vec<Entry<'_, '_>>> = HashMap::new();
    for story in stories.values() {
        let Some(entry) = Entry::of(story) else {
            continue;
        };
        // Two pools have no order among each other.
        if !laned.contains(&story.queue) && entry.reserved < context.windows.moved() {
            queues.entry(story.queue).or_default().push(entry);
        }
    }
    for (queue, mut entries) in queues {
        entries.sort_by_key(|it| it.reserved);
        let left = context.queues.left(queue, context.windows);
        for (place, entry) in entries.iter().enumerate() {
            let before = &entries[..place];
            let overtaker = before.iter().find(|it| {
                it.reserved < entry.reserved
                    && entry.is_ahead_of(it)
                    && !left.iter().any(|left| left.meets(&at(it.reserved)))
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
        (story.is_published() && story.keeps_time && is_first).then(|| Self {
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

const fn at(moment: Moment) -> Span {
    Span {
        from: moment,
        to: moment,
    }
}
