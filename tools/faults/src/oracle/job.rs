//! The history of one job, by its id: deliveries on either wire, and requests about it.

use std::cmp::Reverse;

use tidegate_core::JobState;
use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::publish::PublishResult;

use super::excuses::Excuses;
use crate::history::{CancelEffect, SettleAction, ShownJob, Span, UnixMicros, micros};

const MS: u64 = 1000;

#[derive(Debug, Default)]
pub(super) struct JobHistory {
    pub(super) id: String,
    pub(super) queue: u16,
    pub(super) key: Option<u32>,
    /// The number of its first version.
    pub(super) version: u64,
    /// Whether it was published on the native API, so that its failures and losses are counted.
    pub(super) counts_failures: bool,
    /// Its deliveries, in order.
    pub(super) deliveries: Vec<VersionDelivery>,
    /// Requests about it that were carried out, or may have been.
    pub(super) events: Vec<JobEvent>,
    /// Whether times in answers about it are by the clock of this machine. If the clock of Redis was moved meanwhile,
    /// they are meaningless, and the order of its deliveries is not certain.
    pub(super) has_reliable_times: bool,
}

#[derive(Debug, Clone)]
pub(super) struct VersionDelivery {
    /// The number of the version.
    pub(super) number: u64,
    /// The attempt; `None` on the lmstfy wire, which does not show it.
    pub(super) attempt: Option<u32>,
    /// The span in which its lease can have begun.
    pub(super) begin: Span,
    /// Whether the times in the answer are by the clock of this machine.
    pub(super) has_reliable_times: bool,
    /// When its lease ends, if it is not extended.
    pub(super) lease_until: UnixMicros,
    /// When the job was due, as the answer shows.
    pub(super) run_at: Option<UnixMicros>,
    /// Its failures, as the answer shows.
    pub(super) failures: Option<u32>,
    /// Its attempts left, as the lmstfy wire shows.
    pub(super) tries_left: Option<u64>,
    /// The span of the request that shows it.
    pub(super) span: Span,
}

impl VersionDelivery {
    /// Its place among the deliveries of its job, as its answer shows.
    pub(super) fn turn(&self) -> (Option<u32>, Option<Reverse<u64>>) {
        (self.attempt, self.tries_left.map(Reverse))
    }

    /// The span in which Redis may lose that it began.
    pub(super) const fn lease_begin_span(&self) -> Span {
        Span {
            from: self.begin.from,
            to: self.span.to,
        }
    }
}

/// A request about a job.
#[derive(Debug, Clone)]
pub(super) struct JobEvent {
    /// The span of the request.
    pub(super) span: Span,
    /// The latest time at which it can have been carried out.
    pub(super) by: UnixMicros,
    pub(super) kind: EventKind,
}

/// The effect of a request. An effect or result of `None` means that it has no clear answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EventKind {
    /// It published, and its answer shows the job.
    Published {
        outcome: PublishResult,
        state: JobState,
    },
    /// It settled an attempt.
    Settled {
        /// `None` on the lmstfy wire, where an ack names no attempt.
        attempt: Option<u32>,
        number: u64,
        action: SettleAction,
        result: Option<Outcome>,
    },
    /// It cancelled the job.
    Cancelled(Option<CancelEffect>),
    /// It changed when the job is due: within this span.
    Changed { due: Span, is_certain: bool },
    /// It made the job ready.
    Promoted { is_certain: bool },
    /// It showed the job.
    Shown(ShownJob),
    /// It showed the job on the lmstfy wire.
    Peeked,
}

impl JobEvent {
    /// The span in which it can have been carried out.
    pub(super) const fn carried_out(&self) -> Span {
        Span {
            from: self.span.from,
            to: self.by,
        }
    }

    /// Whether it may have ended this attempt; `None` = one of the lmstfy wire, which shows neither the attempt nor a
    /// lease for a native client: only an ack of that wire, or a cancel, can have ended it.
    pub(super) fn may_end_attempt(&self, of: Option<u32>) -> bool {
        match &self.kind {
            EventKind::Settled {
                attempt,
                action,
                result,
                ..
            } => {
                let is_same = attempt.is_none() || *attempt == of;
                is_same && !matches!(action, SettleAction::Touch(_)) && !is_refused(*result)
            }
            EventKind::Cancelled(effect) => matches!(
                effect,
                None | Some(CancelEffect::Revoked | CancelEffect::Deleted(_) | CancelEffect::Gone)
            ),
            _ => false,
        }
    }

    /// The same, if the version of the attempt comes again afterwards: an ack or a cancel without an answer was not
    /// carried out then.
    pub(super) fn may_give_back(&self, of: Option<u32>) -> bool {
        let is_open_end = matches!(
            self.kind,
            EventKind::Cancelled(None)
                | EventKind::Settled {
                    action: SettleAction::Ack,
                    result: None,
                    ..
                }
        );
        !is_open_end && self.may_end_attempt(of)
    }

    /// Whether it shows that the job was unfinished when it was carried out.
    pub(super) fn shows_unfinished(&self) -> bool {
        match &self.kind {
            EventKind::Published { state, .. } => *state != JobState::Done,
            EventKind::Settled {
                attempt: Some(_),
                result: Some(result),
                ..
            } => !is_refused(Some(*result)),
            EventKind::Cancelled(Some(effect)) => {
                !matches!(effect, CancelEffect::AlreadyDone | CancelEffect::Gone)
            }
            EventKind::Changed { is_certain, .. } | EventKind::Promoted { is_certain } => {
                *is_certain
            }
            EventKind::Shown(shown) => shown.state != JobState::Done,
            EventKind::Peeked => true,
            _ => false,
        }
    }
}

/// Whether a settle was refused.
pub(super) const fn is_refused(result: Option<Outcome>) -> bool {
    matches!(result, Some(Outcome::Lost | Outcome::Gone))
}

impl JobHistory {
    pub(super) fn name(&self) -> String {
        match self.key {
            Some(key) => format!("job {} (key {key}) of queue {}", self.id, self.queue),
            None => format!("job {} of queue {}", self.id, self.queue),
        }
    }

    /// Returns the last time at which it certainly existed, as deliveries and peeks show. Observations while Redis
    /// could lose writes do not count: they may come from a demoted master that does not have an ack which the new
    /// master has.
    pub(super) fn last_observed(&self, windows: &Excuses<'_>) -> Option<UnixMicros> {
        let peeks = self.events.iter().filter(|it| it.kind == EventKind::Peeked);
        let delivered = self.deliveries.iter().map(|it| it.begin.from);
        let seen = delivered.chain(peeks.map(|it| it.span.from));
        let seen = seen.filter(|at| !windows.may_lose(Span { from: *at, to: *at }));
        seen.max()
    }

    /// Returns the settles of this attempt, with their actions and results.
    pub(super) fn settles(
        &self,
        of: Option<u32>,
    ) -> impl Iterator<Item = (&JobEvent, SettleAction, Option<Outcome>)> {
        self.events
            .iter()
            .filter_map(move |event| match event.kind {
                EventKind::Settled {
                    attempt,
                    action,
                    result,
                    ..
                } if attempt.is_some() && attempt == of => Some((event, action, result)),
                _ => None,
            })
    }

    /// Returns the other deliveries that can have begun before the one at this place.
    pub(super) fn possibly_before(&self, place: usize) -> impl Iterator<Item = &VersionDelivery> {
        let delivery = &self.deliveries[place];
        let others = self.deliveries.iter().enumerate();
        let before = others.filter(move |(other, it)| match self.has_reliable_times {
            true => *other < place,
            false => *other != place && it.begin.from <= delivery.begin.to,
        });
        before.map(|(_, it)| it)
    }

    /// Returns the other deliveries that have certainly begun before the one at this place.
    pub(super) fn certainly_before(&self, place: usize) -> impl Iterator<Item = &VersionDelivery> {
        let delivery = &self.deliveries[place];
        self.possibly_before(place)
            .filter(|it| self.has_reliable_times || it.begin.to < delivery.begin.from)
    }

    /// Returns the spans of the requests that report a failure of a delivery and leave the job alive, and whether each
    /// was certainly carried out.
    pub(super) fn reported_failures(
        &self,
        delivery: &VersionDelivery,
    ) -> impl Iterator<Item = (Span, bool)> {
        let settles = self.settles(delivery.attempt);
        settles.filter_map(|(event, action, result)| match (action, result) {
            (_, Some(Outcome::Retry { .. })) => Some((event.carried_out(), true)),
            (SettleAction::Fail | SettleAction::FailRetryIn(_), None) => {
                Some((event.carried_out(), false))
            }
            _ => None,
        })
    }

    /// Returns when the lease of a delivery ends at the earliest, by its answer and the answers to extensions that were
    /// received before `at`.
    pub(super) fn held_until(&self, delivery: &VersionDelivery, at: UnixMicros) -> UnixMicros {
        let extended = self.settles(delivery.attempt);
        let extended = extended.filter_map(|(event, _, result)| match result {
            Some(Outcome::Extended { lease_until, .. }) if event.span.to <= at => {
                Some(micros(lease_until))
            }
            _ => None,
        });
        extended.fold(delivery.lease_until, UnixMicros::max)
    }

    /// Returns when the lease of a delivery ends at the latest.
    pub(super) fn held_at_most_until(&self, delivery: &VersionDelivery) -> UnixMicros {
        let extended = self.settles(delivery.attempt);
        let extended = extended.filter_map(|(event, action, result)| match (action, result) {
            (_, Some(Outcome::Extended { lease_until, .. })) => Some(micros(lease_until)),
            (SettleAction::Touch(lease), None) => Some(event.by.saturating_add(lease + MS)),
            _ => None,
        });
        extended.fold(delivery.lease_until, UnixMicros::max)
    }

    /// Returns the span in which it certainly existed and was not finished; `None` if it is not certain at any time.
    pub(super) fn unfinished(&self) -> Option<Span> {
        let events = || self.events.iter().filter(|event| event.shows_unfinished());
        let first = self.deliveries.iter().map(|it| it.begin.to);
        let from = first.chain(events().map(|it| it.span.to)).min()?;
        let last = self.deliveries.iter().map(|it| it.begin.from);
        let to = last.chain(events().map(|it| it.span.from)).max()?;
        (from <= to).then_some(Span { from, to })
    }
}
