//! Until when something must have happened, and what may have been lost.
//!
//! From the moment at which a job is due, or its lease is over, it may take as long as the bound says, where time in which
//! an episode excuses lateness, or in which the machine was busy, does not count: due + bound + outage. Time for which a
//! taking that no answer shows may have held the job does not count either; each such taking costs a try, so the next
//! delivery tells how many there were. Nor does time in which no consumer asked for jobs of the queue.

use super::asked::Asked;
use super::takings::Takings;
use crate::fault::Class;
use crate::history::{Episode, History, Moment, NOT_CONFIRMED, Operation, Outcome, Span};

/// How long an API goes on to count for rate limits by itself, in µs.
const COUNTS_ALONE: u64 = 5_000_000;

/// What excuses lateness and loss in a run.
#[derive(Debug)]
pub(super) struct Windows<'a> {
    is_replicated: bool,
    pub(super) bound: u64,
    /// Whether a job that comes after its window is late; otherwise the machine was too busy.
    proves_lateness: bool,
    episodes: &'a [Episode],
    /// In their order.
    excused: Vec<Span>,
    busy: &'a [Span],
    takings: Takings,
    asked: Asked,
}

impl<'a> Windows<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let episodes = history.episodes.iter().map(Episode::excused);
        let mut excused: Vec<Span> = episodes.chain(history.busy.iter().copied()).collect();
        excused.sort_by_key(|span| span.from);
        let mut windows = Self {
            is_replicated: history.is_replicated,
            bound: history.bound,
            proves_lateness: history.proves_lateness(),
            episodes: &history.episodes,
            excused,
            busy: &history.busy,
            takings: Takings::default(),
            asked: Asked::of(history),
        };
        windows.takings = Takings::of(history, &windows);
        windows
    }

    /// The last moment at which a job may come that can be had from `available` on, if so many takings are
    /// not accounted for. There is none on a machine that was too busy.
    pub(super) fn deadline(&self, queue: u16, available: Moment, mut takes: u64) -> Moment {
        if !self.proves_lateness {
            return Moment::MAX;
        }
        let mut takings = match takes {
            0 => Vec::new(),
            _ => self.takings.holding_after(queue, available),
        };
        let mut excused = self.excused_for(queue);
        excused.extend(self.asked.pauses(queue, available));
        excused.sort_by_key(|span| span.from);
        loop {
            let deadline = reckon(&excused, available, self.bound);
            let within = takings.iter().enumerate();
            let within = within.filter(|(_, taking)| taking.from <= deadline);
            let Some((place, _)) = within.max_by_key(|(_, taking)| taking.to) else {
                return deadline;
            };
            if takes == 0 {
                return deadline;
            }
            excused.push(takings.swap_remove(place));
            excused.sort_by_key(|span| span.from);
            takes -= 1;
        }
    }

    /// The time that does not count for the jobs of this queue, in no order.
    fn excused_for(&self, queue: u16) -> Vec<Span> {
        let excused = self.episodes.iter().map(|it| it.excused_for(queue));
        excused.chain(self.busy.iter().copied()).collect()
    }

    /// For how long consumers asked for jobs of this queue in this time.
    pub(super) fn asked_within(&self, queue: u16, during: Span) -> u64 {
        self.asked.time_within(queue, during)
    }

    /// How often a job of this queue can have been taken in this time without a delivery that is known.
    pub(super) fn unseen_takes(&self, queue: u16, during: Span) -> u64 {
        self.takings.count(queue, during)
    }

    /// When so much time has passed since a moment, excused time not counted.
    pub(super) fn after(&self, since: Moment, time: u64) -> Moment {
        reckon(&self.excused, since, time)
    }

    /// The last moment at which a request can have been carried out.
    pub(super) fn carried_out_by(&self, operation: &Operation) -> Moment {
        match operation.outcome.is_open() {
            true => self.after(operation.span.to, self.bound),
            false => operation.span.to,
        }
    }

    /// Whether anything was done to the world that can be felt in this time.
    pub(super) fn is_calm(&self, span: Span) -> bool {
        !self.episodes.iter().any(|episode| episode.concerns(&span))
    }

    /// Whether Redis's clock, by which its answers tell times, was that of the machine for all this time.
    pub(super) fn keeps_time(&self, span: Span) -> bool {
        let mut moved = self
            .episodes
            .iter()
            .filter(|it| it.class == Class::RedisClock);
        !moved.any(|episode| episode.concerns(&span))
    }

    /// Whether Redis counted for rate limits in all this time. Where it cannot, each API counts for itself, and asks again
    /// 5 s later.
    pub(super) fn keeps_limits(&self, span: Span) -> bool {
        let felt = Span {
            from: span.from.saturating_sub(COUNTS_ALONE),
            to: span.to,
        };
        let mut around = self.episodes.iter().filter(|it| it.concerns(&felt));
        self.keeps_time(span) && !around.any(|it| it.class.fails_requests())
    }

    /// Since when new jobs of a queue may be in another pool than those before.
    pub(super) fn moved(&self) -> Moment {
        let moves = self
            .episodes
            .iter()
            .filter(|it| it.class == Class::PoolMove);
        let begun = moves.map(|episode| episode.span.from);
        begun.min().unwrap_or(Moment::MAX)
    }

    /// Whether Redis was set up to lose what it acknowledged in a part of this time.
    pub(super) fn may_lose(&self, span: Span) -> bool {
        let mut losses = self.episodes.iter().filter_map(|episode| episode.may_lose);
        losses.any(|loss| loss.meets(&span))
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
}

/// When so much time has passed since a moment. The excused spans, in their order, are not counted.
fn reckon(excused: &[Span], since: Moment, mut time: u64) -> Moment {
    let mut at = since;
    for span in excused.iter().filter(|span| span.to > since) {
        let counted = span.from.saturating_sub(at);
        if counted >= time {
            break;
        }
        time -= counted;
        at = at.max(span.to);
    }
    at.saturating_add(time)
}

/// Whether memory was full all the time.
pub(super) fn is_full_around(episode: &Episode, span: Span) -> bool {
    let Span { from, to } = episode.span;
    episode.class == Class::MemoryFull && from <= span.from && span.to <= to
}
