//! Reservations that no answer shows. Each costs the job a try and holds it for a lease.
//!
//! A consume without a clear answer may have reserved jobs. And during a fault, Redis can execute a call whose reply is
//! lost; the API then repeats the call for consumers that still wait, so no consume shows the first one. On a busy
//! machine a job that goes back, because its consumer was answered before, can be late for its lease. In a run that
//! proves nothing about lateness the machine was busy all the time, and each consume that was answered without a job
//! may have been such a consumer.

use std::collections::HashMap;

use crate::history::{History, Operation, Span, UnixMicros};

#[derive(Debug, Default)]
pub(super) struct UnobservedReservations {
    by_queue: HashMap<u16, Vec<UnobservedReservation>>,
    /// The spans in which calls can have been executed whose replies were lost.
    disturbed: Vec<Span>,
    /// The spans in which the machine was busy.
    busy: Vec<Span>,
    leases: HashMap<u16, LeaseRange>,
}

/// A possible reservation.
#[derive(Debug, Clone, Copy)]
struct UnobservedReservation {
    /// The span in which it can have happened.
    when: Span,
    ttr: u64,
}

/// The shortest and the longest lease that consumers of a queue request, in µs.
#[derive(Debug, Clone, Copy)]
struct LeaseRange {
    min: u64,
    max: u64,
}

impl Default for LeaseRange {
    fn default() -> Self {
        Self {
            min: u64::MAX,
            max: 0,
        }
    }
}

impl UnobservedReservations {
    /// `carried_out_by` = until when an operation without an answer may have been carried out.
    pub(super) fn from_history(
        history: &History,
        carried_out_by: impl Fn(&Operation) -> UnixMicros,
    ) -> Self {
        let mut takings = Self {
            busy: history.busy.clone(),
            ..Self::default()
        };
        for episode in &history.episodes {
            let Span { from, to } = episode.span;
            takings.disturbed.push(Span {
                from,
                to: to.max(episode.excuses_until),
            });
        }
        for operation in &history.operations {
            let Some((queues, leases)) = operation.reserve() else {
                continue;
            };
            for queue in queues {
                let of_queue = takings.leases.entry(*queue).or_default();
                of_queue.min = of_queue.min.min(*leases.start());
                of_queue.max = of_queue.max.max(*leases.end());
            }
            let found_no_job = operation.delivered().is_some_and(<[_]>::is_empty);
            let may_have_left = !history.proves_lateness() && found_no_job;
            let until = match (operation.outcome.is_unknown(), may_have_left) {
                (true, _) => carried_out_by(operation),
                (false, true) => operation.span.to + history.bound,
                (false, false) => continue,
            };
            let when = Span {
                from: operation.span.from,
                to: until,
            };
            for queue in queues {
                let of_queue = takings.by_queue.entry(*queue).or_default();
                let ttr = *leases.end();
                of_queue.push(UnobservedReservation { when, ttr });
            }
        }
        takings
    }

    /// Returns the spans in which unobserved reservations can have held a job of this queue, if they end after
    /// `moment`.
    pub(super) fn holding_after(&self, queue: u16, moment: UnixMicros) -> Vec<Span> {
        let taken = self.by_queue.get(&queue).into_iter().flatten();
        let taken = taken.map(|taking| span_of_lease(taking.when, taking.ttr));
        let lost = self.disturbed.iter();
        let longest = self.leases_of(queue).max;
        let lost = lost.map(|disturbed| span_of_lease(*disturbed, longest));
        taken.chain(lost).filter(|it| it.to >= moment).collect()
    }

    /// Returns the largest possible number of reservations of this queue in this span.
    pub(super) fn count(&self, queue: u16, during: Span) -> u64 {
        let taken = self.by_queue.get(&queue).into_iter().flatten();
        let taken = taken.filter(|taking| taking.when.overlaps(&during)).count() as u64;
        let unsteady = self.disturbed.iter().chain(&self.busy);
        let lost = unsteady.filter_map(|it| it.intersection(&during));
        let shortest = self.leases_of(queue).min;
        let lost = lost.map(|unsteady| unsteady.to.saturating_sub(unsteady.from) / shortest + 1);
        taken + lost.sum::<u64>()
    }

    fn leases_of(&self, queue: u16) -> LeaseRange {
        self.leases.get(&queue).copied().unwrap_or_default()
    }
}

const fn span_of_lease(when: Span, ttr: u64) -> Span {
    Span {
        from: when.from,
        to: when.to + ttr,
    }
}
