//! What was done to queues as a whole.

use std::collections::HashMap;

use super::story::Story;
use super::windows::Windows;
use crate::history::{History, Moment, Operation, Outcome, Request, Span};

/// Requests about queues that may have been carried out, by queue.
#[derive(Debug, Default)]
pub(super) struct Queues<'a>(HashMap<u16, Requests<'a>>);

#[derive(Debug, Default)]
pub(super) struct Requests<'a> {
    purges_ready: Vec<&'a Operation>,
    purges_dead: Vec<&'a Operation>,
    respawns: Vec<&'a Operation>,
    /// Those that may have taken jobs of it.
    pub(super) consumes: Vec<&'a Operation>,
}

impl<'a> Queues<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let mut queues = Self::default();
        for operation in &history.operations {
            if matches!(
                operation.outcome,
                Outcome::NotSent | Outcome::Refused(_) | Outcome::Respawned(0)
            ) {
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

    pub(super) fn get(&self, queue: u16) -> Option<&Requests<'a>> {
        self.0.get(&queue)
    }

    /// Whether jobs of a queue may have been purged at any moment.
    pub(super) fn was_purged(&self, queue: u16) -> bool {
        let requests = self.get(queue);
        requests.is_some_and(|it| !it.purges_ready.is_empty() || !it.purges_dead.is_empty())
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
            let at = Span {
                from: respawn.span.from,
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
        let available = match story.deliveries.is_empty() {
            // It may have been stored at any moment of its publish.
            true => story.published.span.from + story.terms.delay,
            false => available,
        };
        let seen = available.max(story.last_seen());
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

    /// The purge that certainly deleted a job: the job was ready before it, and no consumer can have had it.
    pub(super) fn purged(&self, story: &Story<'_>) -> Option<&'a Operation> {
        let published = story.published.span;
        if !story.is_published() || story.terms.delay > 0 || story.terms.ttl > 0 {
            return None;
        }
        let requests = self.get(story.queue)?;
        let is_certain = |purge: &&Operation| {
            let time = Span {
                from: published.from,
                to: purge.span.to,
            };
            let consumes = &requests.consumes;
            purge.outcome == Outcome::Deleted
                && published.to < purge.span.from
                && !consumes.iter().any(|consume| consume.span.meets(&time))
        };
        let certain = requests.purges_ready.iter().copied().filter(is_certain);
        certain.min_by_key(|purge| purge.span.to)
    }
}
