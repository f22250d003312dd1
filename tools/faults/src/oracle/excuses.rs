//! Deadlines of deliveries, and jobs that may have been lost.
//!
//! A delivery may take as long as the bound, counted from when the job is due or its lease expires. Time in which an
//! episode excuses lateness, or in which the machine was busy, does not count: due + bound + outage. Time in which an
//! unobserved reservation may have held the job does not count either; each costs a try, so the next delivery shows how
//! many there were. Nor does time in which no consumer requested jobs of the queue.

use super::request_spans::RequestSpans;
use super::unobserved_reservations::UnobservedReservations;
use crate::fault::Class;
use crate::history::{
    Episode, HeldQueue, History, NOT_CONFIRMED, Operation, RequestOutcome, Span, UnixMicros,
};

/// How long an API continues to count rate limits locally after Redis failed, in µs.
const COUNTS_ALONE: u64 = 5_000_000;

/// How long an API may not know the policies after it can read them again, in µs: it tries once a second.
const POLICIES_READ: u64 = 2_000_000;

/// The excuses for lateness and loss in a run.
#[derive(Debug)]
pub(super) struct Excuses<'a> {
    is_replicated: bool,
    pub(super) bound: u64,
    /// Whether lateness is judged; if not, the machine was too busy.
    proves_lateness: bool,
    episodes: &'a [Episode],
    /// Sorted by begin.
    excused: Vec<Span>,
    busy: &'a [Span],
    reservations: UnobservedReservations,
    requests: RequestSpans,
    held: &'a [HeldQueue],
}

impl<'a> Excuses<'a> {
    pub(super) fn from_history(history: &'a History) -> Self {
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
            reservations: UnobservedReservations::default(),
            requests: RequestSpans::from_history(history),
            held: &history.held,
        };
        windows.reservations = UnobservedReservations::from_history(history, |operation| {
            windows.carried_out_by(operation)
        });
        windows
    }

    /// Returns the latest time at which a job may be delivered that is available since `available`, with `takes`
    /// unobserved reservations. `UnixMicros::MAX` if the machine was too busy, or if jobs of the queue wait on purpose.
    pub(super) fn deadline(&self, queue: u16, available: UnixMicros, mut takes: u64) -> UnixMicros {
        if !self.proves_lateness || self.is_held(queue) {
            return UnixMicros::MAX;
        }
        let mut takings = match takes {
            0 => Vec::new(),
            _ => self.reservations.holding_after(queue, available),
        };
        let mut excused = self.excused_for(queue);
        excused.extend(self.requests.pauses(queue, available));
        excused.sort_by_key(|span| span.from);
        loop {
            let deadline = advance(&excused, available, self.bound);
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

    /// Whether jobs of this queue wait on purpose.
    pub(super) fn is_held(&self, queue: u16) -> bool {
        self.held.iter().any(|it| it.queue == queue)
    }

    /// Returns the spans that do not count for the jobs of this queue, unsorted.
    fn excused_for(&self, queue: u16) -> Vec<Span> {
        let excused = self.episodes.iter().map(|it| it.excused_for(queue));
        excused.chain(self.busy.iter().copied()).collect()
    }

    /// Returns how long consumers requested jobs of this queue in this span, in µs.
    pub(super) fn requested_time_within(&self, queue: u16, during: Span) -> u64 {
        self.requests.time_within(queue, during)
    }

    /// Returns how often a job of this queue can have been reserved in this span unobserved.
    pub(super) fn unobserved_reservations(&self, queue: u16, during: Span) -> u64 {
        self.reservations.count(queue, during)
    }

    /// Returns when `time` has passed since `since`, not counting excused time.
    pub(super) fn time_after(&self, since: UnixMicros, time: u64) -> UnixMicros {
        advance(&self.excused, since, time)
    }

    /// Returns the latest time at which a request can have been carried out.
    pub(super) fn carried_out_by(&self, operation: &Operation) -> UnixMicros {
        match operation.outcome.is_unknown() {
            true => self.time_after(operation.span.to, self.bound),
            false => operation.span.to,
        }
    }

    /// Whether no fault had an effect in this span.
    pub(super) fn is_without_fault(&self, span: Span) -> bool {
        !self.episodes.iter().any(|episode| episode.affects(&span))
    }

    /// Whether Redis's clock was the machine's clock during all of this span.
    pub(super) fn has_reliable_clock(&self, span: Span) -> bool {
        let mut moved = self
            .episodes
            .iter()
            .filter(|it| it.class == Class::RedisClock);
        !moved.any(|episode| episode.affects(&span))
    }

    /// Whether Redis counted rate limits during all of this span. If it cannot, each API counts locally, and tries
    /// again 5 s later.
    pub(super) fn enforces_limits(&self, span: Span) -> bool {
        let felt = Span {
            from: span.from.saturating_sub(COUNTS_ALONE),
            to: span.to,
        };
        let mut around = self.episodes.iter().filter(|it| it.affects(&felt));
        self.has_reliable_clock(span) && !around.any(|it| it.class.fails_requests())
    }

    /// Whether the limits of policies were enforced during all of this span, and what was counted for them was not
    /// lost. Each Redis of a pool that moves has its own policies and counts.
    pub(super) fn enforces_policies(&self, span: Span) -> bool {
        self.has_reliable_clock(span)
            && self.has_one_pool(span)
            && !self.may_lose(span)
            && self.knows_policies(span)
    }

    /// Whether all APIs knew the policies. One that starts reads them before it serves; if that fails, all queues have
    /// the default policy until it succeeds.
    fn knows_policies(&self, span: Span) -> bool {
        let felt = Span {
            from: span.from.saturating_sub(POLICIES_READ),
            to: span.to,
        };
        let mut starts = self.episodes.iter();
        !starts.any(|it| it.affects(&felt) && it.class.starts_apis() && self.may_fail_to_read(it))
    }

    /// Whether an API that was started in this episode may have failed to read from Redis.
    fn may_fail_to_read(&self, start: &Episode) -> bool {
        let span = start.span;
        let fails = |it: &&Episode| !std::ptr::eq(*it, start) && it.class.fails_requests();
        let mut others = self.episodes.iter().filter(fails);
        start.class == Class::StartWhileLoading || others.any(|it| it.affects(&span))
    }

    /// Returns since when new jobs of a queue may be in another pool than earlier ones.
    pub(super) fn pool_moved_at(&self) -> UnixMicros {
        let moves = self
            .episodes
            .iter()
            .filter(|it| it.class == Class::PoolMove);
        let begun = moves.map(|episode| episode.span.from);
        begun.min().unwrap_or(UnixMicros::MAX)
    }

    /// Whether all jobs of the pool were in one deployment until the end of this span, so that their keys and those of
    /// requests were known there.
    pub(super) fn has_one_pool(&self, span: Span) -> bool {
        span.to < self.pool_moved_at()
    }

    /// Whether Redis may lose writes that it acknowledged in a part of this span.
    pub(super) fn may_lose(&self, span: Span) -> bool {
        let mut losses = self.episodes.iter().filter_map(|episode| episode.may_lose);
        losses.any(|loss| loss.overlaps(&span))
    }

    /// Whether jobs may be lost that were acknowledged in a part of this span.
    pub(super) fn may_lose_jobs(&self, span: Span) -> bool {
        !self.is_replicated && self.may_lose(span)
    }

    /// Whether a publish was certainly not carried out. That includes a failure while memory was full and no other
    /// fault had an effect.
    pub(super) fn was_not_executed(&self, publish: &Operation) -> bool {
        match publish.outcome {
            RequestOutcome::Refused(_) | RequestOutcome::NotSent => true,
            RequestOutcome::Failed(NOT_CONFIRMED) => false,
            RequestOutcome::Failed(_) => {
                let episodes = self.episodes.iter();
                let mut around = episodes.filter(|it| it.affects(&publish.span));
                around
                    .next()
                    .is_some_and(|episode| has_full_memory(episode, publish.span))
                    && around.next().is_none()
            }
            _ => false,
        }
    }
}

/// Returns when `time` has passed since `since`, not counting the excused spans, which must be sorted.
fn advance(excused: &[Span], since: UnixMicros, mut time: u64) -> UnixMicros {
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

/// Whether memory was full during all of this span.
pub(super) fn has_full_memory(episode: &Episode, span: Span) -> bool {
    let Span { from, to } = episode.span;
    let is_full = matches!(episode.class, Class::MemoryFull | Class::MemoryInUse);
    is_full && from <= span.from && span.to <= to
}
