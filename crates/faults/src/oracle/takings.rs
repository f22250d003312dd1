//! Takings of jobs that no answer shows. Each costs the job a try and holds it for a lease.
//!
//! A consume without a clear answer may have taken jobs. And while the world is disturbed a call to Redis can be carried
//! out whose reply is lost, after which the API calls again for consumers that still wait: then no consume tells of it.

use std::collections::HashMap;

use super::windows::Windows;
use crate::history::{History, Moment, Request, Span};

#[derive(Debug, Default)]
pub(super) struct Takings {
    by_queue: HashMap<u16, Vec<Taking>>,
    /// The times in which calls can have been carried out whose replies were lost.
    disturbed: Vec<Span>,
    leases: Leases,
}

/// One that may have been.
#[derive(Debug, Clone, Copy)]
struct Taking {
    /// The time in which it can have been.
    when: Span,
    ttr: u64,
}

/// The shortest and the longest lease that consumes of a run ask for, in µs.
#[derive(Debug, Clone, Copy)]
struct Leases {
    min: u64,
    max: u64,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Takings {
    pub(super) fn of(history: &History, windows: &Windows<'_>) -> Self {
        let mut takings = Self::default();
        for episode in &history.episodes {
            let Span { from, to } = episode.span;
            takings.disturbed.push(Span {
                from,
                to: to.max(episode.excuses_until),
            });
        }
        for operation in &history.operations {
            let Request::Consume { queues, ttr, .. } = &operation.request else {
                continue;
            };
            takings.leases.min = takings.leases.min.min(*ttr);
            takings.leases.max = takings.leases.max.max(*ttr);
            if !operation.outcome.is_open() {
                continue;
            }
            let when = Span {
                from: operation.span.from,
                to: windows.carried_out_by(operation),
            };
            for queue in queues {
                let of_queue = takings.by_queue.entry(*queue).or_default();
                of_queue.push(Taking { when, ttr: *ttr });
            }
        }
        takings
    }

    /// The times for which takings can have held a job of this queue, as far as they go on after a moment.
    pub(super) fn holding_after(&self, queue: u16, moment: Moment) -> Vec<Span> {
        let taken = self.by_queue.get(&queue).into_iter().flatten();
        let taken = taken.map(|taking| hold(taking.when, taking.ttr));
        let lost = self.disturbed.iter();
        let lost = lost.map(|disturbed| hold(*disturbed, self.leases.max));
        taken.chain(lost).filter(|it| it.to >= moment).collect()
    }

    /// How many of this queue can have been in this time.
    pub(super) fn count(&self, queue: u16, during: Span) -> u64 {
        let taken = self.by_queue.get(&queue).into_iter().flatten();
        let taken = taken.filter(|taking| taking.when.meets(&during)).count() as u64;
        let lost = self.disturbed.iter().filter(|it| it.meets(&during));
        let lost = lost.map(|disturbed| (disturbed.to - disturbed.from) / self.leases.min + 1);
        taken + lost.sum::<u64>()
    }
}

const fn hold(when: Span, ttr: u64) -> Span {
    Span {
        from: when.from,
        to: when.to + ttr,
    }
}
