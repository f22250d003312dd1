//! What happened to each job, as its clients saw it.

use std::collections::BTreeMap;

use super::verdict::{Defect, Verdict};
use super::windows::Windows;
use crate::history::{Delivered, History, Moment, Operation, Outcome, Request, Span, Terms};

/// One job.
#[derive(Debug)]
pub(super) struct Story<'a> {
    pub(super) queue: u16,
    pub(super) terms: Terms,
    /// The request that published it.
    pub(super) published: &'a Operation,
    id: Option<&'a str>,
    /// In their order.
    pub(super) deliveries: Vec<Delivery<'a>>,
    /// The requests that were to end it.
    pub(super) ends: Vec<&'a Operation>,
}

/// One delivery that a consumer has read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery<'a> {
    pub(super) got: &'a Delivered,
    /// The request that brought it.
    pub(super) span: Span,
    pub(super) ttr: u64,
    /// The earliest moment at which its lease can have begun.
    pub(super) earliest: Moment,
}

impl<'a> Delivery<'a> {
    fn new(got: &'a Delivered, span: Span, ttr: u64, count: u64) -> Self {
        // The time in an answer is that of the last job in it.
        let earliest = match count {
            1 => got.reserved(),
            _ => span.from.min(got.reserved()),
        };
        Self {
            got,
            span,
            ttr,
            earliest,
        }
    }

    /// When its lease is surely over, but for 2 ms.
    pub(super) const fn lease_end(&self) -> Moment {
        self.got.reserved() + self.ttr
    }
}

impl Story<'_> {
    pub(super) fn is_published(&self) -> bool {
        matches!(self.published.outcome, Outcome::Published(_))
    }

    /// Whether it may have been ended by a client.
    pub(super) fn is_ended(&self) -> bool {
        let may_have = |end: &&Operation| end.outcome == Outcome::Deleted || end.outcome.is_open();
        self.ends.iter().any(may_have)
    }

    /// When it was stored, at the earliest.
    pub(super) fn created(&self) -> Moment {
        let first = self.deliveries.first();
        first.map_or(self.published.span.from, |delivery| delivery.got.created)
    }

    pub(super) fn name(&self) -> String {
        format!("job {} of queue {}", self.terms.number, self.queue)
    }
}

/// The stories of all jobs by their numbers. What fits no story is found.
pub(super) fn tell<'a>(
    history: &'a History,
    windows: &Windows<'_>,
    verdict: &mut Verdict,
) -> BTreeMap<u64, Story<'a>> {
    let mut stories = BTreeMap::new();
    for operation in &history.operations {
        begin(&mut stories, operation);
    }
    for operation in &history.operations {
        match (&operation.request, &operation.outcome) {
            (Request::Consume { queues, ttr, count }, Outcome::Delivered(jobs)) => {
                for got in jobs {
                    let delivery = Delivery::new(got, operation.span, *ttr, *count);
                    add(&mut stories, delivery, queues, windows, verdict);
                }
            }
            (Request::Ack { job } | Request::Cancel { job }, _) => {
                if let Some(story) = stories.get_mut(job) {
                    story.ends.push(operation);
                }
            }
            _ => {}
        }
    }
    // Tries tell the order; the times in answers may not, where they brought several jobs.
    let order = |it: &Delivery<'_>| {
        let used = u64::MAX - it.got.tries_left;
        (windows.is_after_respawn(it.got), used, it.got.reserved())
    };
    for story in stories.values_mut() {
        story.deliveries.sort_by_key(order);
    }
    stories
}

fn begin<'a>(stories: &mut BTreeMap<u64, Story<'a>>, operation: &'a Operation) {
    let Request::Publish { queue, jobs } = &operation.request else {
        return;
    };
    for (place, terms) in jobs.iter().enumerate() {
        let id = match &operation.outcome {
            Outcome::Published(ids) => ids.get(place).map(String::as_str),
            _ => None,
        };
        let story = Story {
            queue: *queue,
            terms: *terms,
            published: operation,
            id,
            deliveries: Vec::new(),
            ends: Vec::new(),
        };
        stories.insert(terms.number, story);
    }
}

fn add<'a>(
    stories: &mut BTreeMap<u64, Story<'a>>,
    delivery: Delivery<'a>,
    asked: &[u16],
    windows: &Windows<'_>,
    verdict: &mut Verdict,
) {
    let got = delivery.got;
    let mut foreign = |why: &str| {
        verdict.find(
            Defect::Foreign,
            delivery.span.to,
            format!("{}: {why}", got.id),
        );
    };
    let Some(story) = got.number.and_then(|number| stories.get_mut(&number)) else {
        return foreign("nobody published it, or not with this body");
    };
    let first = story.deliveries.first().map(|first| first.got.id.as_str());
    if story.id.or(first).is_some_and(|id| id != got.id) {
        foreign("its job has another id");
    }
    if got.queue != story.queue || !asked.contains(&got.queue) {
        foreign("it came from another queue");
    }
    if windows.was_refused(story.published) {
        foreign("its publish was refused");
    }
    story.deliveries.push(delivery);
}
