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
    /// Where it is among the jobs of that request.
    pub(super) place: usize,
    pub(super) id: Option<&'a str>,
    /// In their order.
    pub(super) deliveries: Vec<Delivery<'a>>,
    /// The requests that were to end it, and nothing else but it.
    pub(super) ends: Vec<&'a Operation>,
    /// When it was peeked at, at the earliest.
    pub(super) peeks: Vec<Moment>,
    /// Whether the times in answers about it are those of this machine's clock. Where Redis's clock was moved meanwhile
    /// they say nothing, and it may well be early or late.
    pub(super) keeps_time: bool,
}

/// One delivery that a consumer has read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery<'a> {
    pub(super) got: &'a Delivered,
    /// The request that brought it.
    pub(super) span: Span,
    pub(super) ttr: u64,
    /// When its lease began, at the earliest.
    pub(super) begun: Moment,
}

impl Delivery<'_> {
    /// When its lease is surely over, but for 2 ms.
    pub(super) const fn lease_end(&self) -> Moment {
        self.got.reserved() + self.ttr
    }

    /// The time in which its lease can have begun and been acknowledged by Redis.
    pub(super) const fn taken(&self) -> Span {
        Span {
            from: self.got.reserved(),
            to: self.span.to,
        }
    }
}

impl Story<'_> {
    pub(super) fn is_published(&self) -> bool {
        matches!(self.published.outcome, Outcome::Published(_))
    }

    /// When it was stored, at the earliest.
    pub(super) fn created(&self) -> Moment {
        let first = self.deliveries.first();
        first.map_or(self.published.span.from, |delivery| delivery.got.created)
    }

    /// The last moment at which it was certainly there, if there is one. What was seen while Redis could lose writes may have
    /// been seen on a master that is no longer one, and that has lost an end which another one has.
    pub(super) fn last_seen(&self, windows: &Windows<'_>) -> Moment {
        let delivered = self.deliveries.iter().map(|it| it.begun);
        let seen = delivered.chain(self.peeks.iter().copied());
        let seen = seen.filter(|at| !windows.may_lose(Span { from: *at, to: *at }));
        seen.max().unwrap_or_default()
    }

    /// Since when it can be had, if nobody took it since the last delivery, and how many tries it has then.
    pub(super) fn available(&self) -> (Moment, u64) {
        match self.deliveries.last() {
            None => (self.published.span.to + self.terms.delay, self.terms.tries),
            Some(last) => (last.lease_end(), last.got.tries_left),
        }
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
            (Request::Consume { queues, ttr, .. }, Outcome::Delivered(jobs)) => {
                for got in jobs {
                    let delivery = Delivery {
                        got,
                        span: operation.span,
                        ttr: *ttr,
                        begun: shown_at(operation, got, windows),
                    };
                    if let Some(story) =
                        find(&mut stories, operation, got, queues, windows, verdict)
                    {
                        story.deliveries.push(delivery);
                    }
                }
            }
            (Request::Peek { queue, .. }, Outcome::Shown(Some(got))) => {
                if let Some(story) = find(&mut stories, operation, got, &[*queue], windows, verdict)
                {
                    story.peeks.push(shown_at(operation, got, windows));
                }
            }
            (
                Request::Ack { job }
                | Request::Cancel { job }
                | Request::Republish { replaced: job, .. },
                _,
            ) => {
                if let Some(story) = stories.get_mut(job) {
                    story.ends.push(operation);
                }
            }
            _ => {}
        }
    }
    for story in stories.values_mut() {
        let life = Span {
            from: story.published.span.from,
            to: story
                .deliveries
                .iter()
                .map(|it| it.span.to)
                .max()
                .unwrap_or(history.ended),
        };
        story.keeps_time = windows.keeps_time(life);
        let order = |it: &Delivery<'_>| {
            let used = u64::MAX - it.got.tries_left;
            match story.keeps_time {
                true => (it.begun, used),
                // An answer with several jobs may be read after that of a later lease.
                false => (used, it.span.to),
            }
        };
        story.deliveries.sort_by_key(order);
    }
    stories
}

fn begin<'a>(stories: &mut BTreeMap<u64, Story<'a>>, operation: &'a Operation) {
    let (queue, jobs) = match &operation.request {
        Request::Publish { queue, jobs } => (queue, jobs.as_slice()),
        Request::Republish { queue, job, .. } => (queue, std::slice::from_ref(job)),
        _ => return,
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
            place,
            id,
            deliveries: Vec::new(),
            ends: Vec::new(),
            peeks: Vec::new(),
            keeps_time: true,
        };
        stories.insert(terms.number, story);
    }
}

/// The story that a shown job belongs to. What does not fit it is found.
fn find<'a, 'b>(
    stories: &'b mut BTreeMap<u64, Story<'a>>,
    operation: &Operation,
    got: &'a Delivered,
    asked: &[u16],
    windows: &Windows<'_>,
    verdict: &mut Verdict,
) -> Option<&'b mut Story<'a>> {
    let mut foreign = |why: &str| {
        let text = format!("{}: {why}", got.id);
        verdict.find(Defect::Foreign, operation.span.to, text);
    };
    let Some(story) = got.number.and_then(|number| stories.get_mut(&number)) else {
        foreign("nobody published it, or not with this body and these attributes");
        return None;
    };
    if story.id.is_some_and(|id| id != got.id) {
        foreign("its job has another id");
    }
    if got.queue != story.queue || !asked.contains(&got.queue) {
        foreign("it came from another queue");
    }
    if windows.was_refused(story.published) {
        foreign("its publish was refused");
    }
    if !can_be_now(story.published, got.created) && windows.keeps_time(story.published.span) {
        foreign("its id says that it was stored when its publish cannot have been carried out");
    }
    let shown = got.reserved();
    let is_within = shown >= cut(operation.span.from) && shown <= operation.span.to;
    let life = Span {
        from: story.published.span.from,
        to: operation.span.to,
    };
    if !is_within && windows.keeps_time(life) {
        foreign("its lease began, or it was looked at, outside of the request that shows it");
    }
    // Where no answer to the publish gave an id, the first that is seen is it.
    story.id = story.id.or(Some(&got.id));
    Some(story)
}

/// Whether a publish can have stored a job at this moment, which is cut to ms.
fn can_be_now(publish: &Operation, created: Moment) -> bool {
    let is_closed = matches!(publish.outcome, Outcome::Published(_));
    created >= cut(publish.span.from) && (!is_closed || created <= publish.span.to)
}

/// When a job that an answer shows was there, at the earliest. Its time means nothing where Redis's clock was moved, then or
/// when the job was published.
fn shown_at(operation: &Operation, got: &Delivered, windows: &Windows<'_>) -> Moment {
    match windows.keeps_time(operation.span) && got.reserved() <= operation.span.to {
        true => got.reserved().max(cut(operation.span.from)),
        false => operation.span.from,
    }
}

/// Cut to ms, as Redis's clock is shown.
pub(super) const fn cut(moment: Moment) -> Moment {
    const MS: u64 = 1000;
    moment / MS * MS
}
