//! What was done to queues as a whole.

use std::collections::HashMap;

use super::story::{Story, cut};
use super::windows::Windows;
use crate::history::{History, Moment, Operation, Outcome, Request, Span};

/// A call to Redis takes less than this part of the bound, and so does giving a job back.
const CALL: u64 = 4;
/// A call is given up after this, in µs.
const CALL_MAX: u64 = 3_000_000;

/// Requests about queues that may have been carried out, by queue.
#[derive(Debug, Default)]
pub(super) struct Queues<'a>(HashMap<u16, Requests<'a>>);

#[derive(Debug, Default)]
pub(super) struct Requests<'a> {
    purges_ready: Vec<&'a Operation>,
    purges_dead: Vec<&'a Operation>,
    respawns: Vec<&'a Operation>,
    /// Those that may have taken jobs of it, or waited for some.
    consumes: Vec<&'a Operation>,
}

impl<'a> Queues<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let mut queues = Self::default();
        for operation in &history.operations {
            // A consume that is refused in the end may have waited for long.
            let was_refused = matches!(operation.outcome, Outcome::Refused(_))
                && !matches!(operation.request, Request::Consume { .. });
            let did_nothing = matches!(operation.outcome, Outcome::NotSent | Outcome::Respawned(0));
            if was_refused || did_nothing {
                continue;
            }
            match &operation.request {
                Request::PurgeReady { queue } => {
                    queues.of_queue(*queue).purges_ready.push(operation)
                }
                Request::PurgeDead { queue, .. } => {
                    queues.of_queue(*queue).purges_dead.push(operation)
                }
                Request::Respawn { queue, .. } => queues.of_queue(*queue).respawns.push(operation),
                Request::Consume { queues: asked, .. } => {
                    for queue in asked {
                        queues.of_queue(*queue).consumes.push(operation);
                    }
                }
                _ => {}
            }
        }
        queues
    }

    fn of_queue(&mut self, queue: u16) -> &mut Requests<'a> {
        self.0.entry(queue).or_default()
    }

    fn get(&self, queue: u16) -> Option<&Requests<'a>> {
        self.0.get(&queue)
    }

    /// The last moment in this time at which a dead job of a queue can have become ready, if there is one.
    pub(super) fn respawned_in(
        &self,
        queue: u16,
        during: Span,
        windows: &Windows<'_>,
    ) -> Option<Moment> {
        let respawns = self.get(queue).into_iter().flat_map(|it| &it.respawns);
        let can_be = respawns.filter_map(|respawn| {
            // The end may be a moment that is shown to the ms.
            let at = Span {
                from: cut(respawn.span.from),
                to: windows.carried_out_by(respawn),
            };
            at.meets(&during).then_some(at.to.min(during.to))
        });
        can_be.max()
    }

    /// Whether a purge can have deleted a job after it was seen last.
    pub(super) fn may_have_purged(&self, story: &Story<'_>, windows: &Windows<'_>) -> bool {
        let Some(requests) = self.get(story.queue) else {
            return false;
        };
        let (available, left) = story.available();
        let available = match (story.keeps_time, story.deliveries.is_empty()) {
            // Where Redis's clock is moved it may be available at any time.
            (false, _) => story.published.span.from,
            // It may have been stored at any moment of its publish.
            (true, true) => story.published.span.from + story.terms.delay,
            (true, false) => available,
        };
        let seen = available.max(story.last_seen(windows));
        let within = |purge: &Operation| Span {
            from: seen,
            to: windows.carried_out_by(purge),
        };
        let was_ready = |purge: &&&Operation| {
            let time = within(purge);
            let is_ready = left > 0 || self.respawned_in(story.queue, time, windows).is_some();
            time.from <= time.to && is_ready
        };
        let was_dead = |purge: &&&Operation| {
            let time = within(purge);
            time.from <= time.to && windows.unseen_takes(story.queue, time) >= left
        };
        requests.purges_ready.iter().any(|it| was_ready(&it))
            || requests.purges_dead.iter().any(|it| was_dead(&it))
    }

    /// The purge that certainly deleted a job: the job was ready before it, and while it was carried out no consumer
    /// can have held it.
    pub(super) fn purged(&self, story: &Story<'_>, windows: &Windows<'_>) -> Option<&'a Operation> {
        let published = story.published.span;
        if !story.is_published() || !story.keeps_time || story.terms.delay > 0 {
            return None;
        }
        let requests = self.get(story.queue)?;
        let left = self.left(story.queue, windows);
        let delivered = story.deliveries.first().map(|first| first.begun);
        let is_certain = |purge: &&Operation| {
            let before = Span {
                from: published.from,
                to: purge.span.to,
            };
            purge.outcome == Outcome::Deleted
                && published.to < purge.span.from
                && delivered.is_none_or(|at| at > purge.span.to)
                && windows.is_calm(before)
                && windows.unseen_takes(story.queue, before) == 0
                && !left.iter().any(|left| left.meets(&purge.span))
        };
        let certain = requests.purges_ready.iter().copied().filter(is_certain);
        certain.min_by_key(|purge| purge.span.to)
    }

    /// When consumers left the line of a queue with nothing from it. A job may have been reserved for them, and was given
    /// back around then, at no cost and seen by nobody.
    pub(super) fn left(&self, queue: u16, windows: &Windows<'_>) -> Vec<Span> {
        let call = (windows.bound / CALL).min(CALL_MAX);
        let consumes = self.get(queue).into_iter().flat_map(|it| &it.consumes);
        let left = consumes.filter_map(|consume| left(consume, queue));
        let around = left.map(|left| Span {
            from: left.from.saturating_sub(call),
            to: left.to + 2 * call,
        });
        around.collect()
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
