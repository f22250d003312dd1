//! Until when a job must have come.
//!
//! From the moment at which it is due, or its lease is over, it may take as long as the bound says, where time in which
//! an episode excuses lateness does not count: due + bound + outage. Time for which a consume without a clear answer may
//! have held the job does not count either; each such taking costs a try, so the next delivery tells how many there were.

use std::collections::HashMap;

use crate::fault::Class;
use crate::history::{
    Delivered, Episode, History, Moment, NOT_CONFIRMED, Operation, Outcome, Request, Span,
};

/// What excuses lateness and loss in a run.
#[derive(Debug)]
pub(super) struct Windows<'a> {
    is_replicated: bool,
    bound: u64,
    respawned: Moment,
    episodes: &'a [Episode],
    /// For each queue: since when a consume may have taken a job of it, and when that was over.
    open_takes: HashMap<u16, Vec<Span>>,
}

impl<'a> Windows<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let mut open_takes: HashMap<u16, Vec<Span>> = HashMap::new();
        for operation in &history.operations {
            let Request::Consume { queues, ttr, .. } = &operation.request else {
                continue;
            };
            if !operation.outcome.is_open() {
                continue;
            }
            let span = Span {
                from: operation.span.from,
                to: operation.span.to + ttr,
            };
            for queue in queues {
                open_takes.entry(*queue).or_default().push(span);
            }
        }
        Self {
            is_replicated: history.is_replicated,
            bound: history.bound,
            respawned: history.respawned,
            episodes: &history.episodes,
            open_takes,
        }
    }

    /// The last moment at which a job may come that can be had from `available` on, if so many takings are
    /// not accounted for.
    pub(super) fn deadline(&self, queue: u16, available: Moment, mut takes: u64) -> Moment {
        let mut takings: Vec<Span> = match takes {
            0 => Vec::new(),
            _ => self.open_takes.get(&queue).cloned().unwrap_or_default(),
        };
        takings.retain(|taking| taking.to >= available);
        let mut excused: Vec<Span> = self.episodes.iter().map(Episode::excused).collect();
        loop {
            let deadline = reckon(&mut excused, available, self.bound);
            let within = takings.iter().enumerate();
            let within = within.filter(|(_, taking)| taking.from <= deadline);
            let Some((place, _)) = within.max_by_key(|(_, taking)| taking.to) else {
                return deadline;
            };
            if takes == 0 {
                return deadline;
            }
            excused.push(takings.swap_remove(place));
            takes -= 1;
        }
    }

    /// How many consumes without a clear answer may have taken a job of this queue after a moment.
    pub(super) fn open_takes_after(&self, queue: u16, moment: Moment) -> u64 {
        let takings = self.open_takes.get(&queue).into_iter().flatten();
        takings.filter(|taking| taking.to >= moment).count() as u64
    }

    /// Whether Redis was set up to lose what it acknowledged in a part of this time.
    pub(super) fn may_lose(&self, span: Span) -> bool {
        let losses = self.episodes.iter().filter_map(|episode| episode.may_lose);
        losses.into_iter().any(|loss| loss.meets(&span))
    }

    /// Whether jobs may be lost that were acknowledged in a part of this time.
    pub(super) fn may_lose_jobs(&self, span: Span) -> bool {
        !self.is_replicated && self.may_lose(span)
    }

    /// Whether a publish was surely not carried out. That is so for a failure while memory is full and nothing
    /// else is wrong.
    pub(super) fn was_refused(&self, publish: &Operation) -> bool {
        match publish.outcome {
            Outcome::Refused(_) | Outcome::NotSent => true,
            Outcome::Failed(NOT_CONFIRMED) => false,
            Outcome::Failed(_) => {
                let episodes = self.episodes.iter();
                let mut around = episodes.filter(|it| it.concerns(&publish.span));
                around
                    .next()
                    .is_some_and(|episode| is_full_around(episode, publish.span))
                    && around.next().is_none()
            }
            _ => false,
        }
    }

    /// Whether this delivery is of a job that was dead.
    pub(super) const fn is_after_respawn(&self, got: &Delivered) -> bool {
        got.reserved() >= self.respawned
    }
}

/// When so much time has passed since a moment, excused time not counted.
fn reckon(excused: &mut [Span], since: Moment, mut time: u64) -> Moment {
    excused.sort_by_key(|span| span.from);
    let mut at = since;
    for span in excused.iter().filter(|span| span.to > since) {
        let counted = span.from.saturating_sub(at);
        if counted >= time {
            break;
        }
        time -= counted;
        at = at.max(span.to);
    }
    at + time
}

/// Whether memory was full all the time.
pub(super) fn is_full_around(episode: &Episode, span: Span) -> bool {
    let Span { from, to } = episode.span;
    episode.class == Class::MemoryFull && from <= span.from && span.to <= to
}
