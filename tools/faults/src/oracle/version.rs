//! A published version, with all requests that published it.

use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{IfExists, JobState};

use super::job::JobHistory;
use crate::history::{Operation, Span, UnixMicros, VersionSpec, Wire, truncate_to_ms};

const MS: u64 = 1000;
/// The limit of attempts of the default policy.
const ATTEMPTS_MAX: u64 = 10;

/// A version. On the lmstfy wire a job has one.
#[derive(Debug)]
pub(super) struct VersionHistory<'a> {
    pub(super) queue: u16,
    pub(super) spec: &'a VersionSpec,
    /// The wire that published it. One of the lmstfy wire counts deliveries, the other one failures.
    pub(super) wire: Wire,
    /// The requests that published it, in order.
    pub(super) publishes: Vec<VersionPublish<'a>>,
    /// The id of its job, if it was observed.
    pub(super) id: Option<String>,
    /// When its job was created, as its first delivery on the lmstfy wire shows.
    pub(super) created: Option<UnixMicros>,
    /// Whether an atomic request without an answer was carried out, as another of its versions shows.
    pub(super) is_proven: bool,
}

/// One request that published a version.
#[derive(Debug, Clone)]
pub(super) struct VersionPublish<'a> {
    pub(super) operation: &'a Operation,
    /// The place of the version in it.
    pub(super) index: usize,
    /// The latest time at which it can have been carried out.
    pub(super) by: UnixMicros,
    pub(super) effect: PublishEffect,
}

/// The known effect of a request on a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PublishEffect {
    /// Its answer shows this job.
    Job {
        id: String,
        outcome: PublishResult,
        state: JobState,
        /// When the job is due; `None` on the lmstfy wire.
        run_at: Option<UnixMicros>,
        is_replayed: bool,
    },
    /// It stored nothing.
    Nothing,
    /// It may have stored the version.
    Unknown,
}

/// Whether a version was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storing {
    Certain,
    Possible,
    Never,
}

impl VersionPublish<'_> {
    /// Whether it has certainly stored its version itself.
    pub(super) const fn has_stored(&self) -> bool {
        matches!(
            self.effect,
            PublishEffect::Job {
                outcome: PublishResult::Created
                    | PublishResult::Replaced
                    | PublishResult::Rerun
                    | PublishResult::Revived,
                is_replayed: false,
                ..
            }
        )
    }
}

impl VersionHistory<'_> {
    pub(super) fn is_native(&self) -> bool {
        self.wire == Wire::Native
    }

    /// Returns the earliest time at which its job can have been created.
    pub(super) fn created(&self) -> UnixMicros {
        self.created.unwrap_or_else(|| self.stored().from)
    }

    pub(super) fn name(&self) -> String {
        let number = self.spec.number;
        match self.spec.key {
            Some(key) => format!("version {number} of key {key} of queue {}", self.queue),
            None => format!("version {number} of queue {}", self.queue),
        }
    }

    /// Returns the failures after which it is dead.
    pub(super) const fn attempts_max(&self) -> u64 {
        match self.spec.tries {
            0 => ATTEMPTS_MAX,
            own => own,
        }
    }

    /// Whether a request that is carried out stores this version, whatever job has its key.
    fn always_stores(&self) -> bool {
        self.spec.key.is_none() || self.spec.if_exists == IfExists::Replace
    }

    /// Whether an answer has shown its job. Otherwise it may be stored and yet be missing on replicas and on disk.
    pub(super) fn is_confirmed(&self) -> bool {
        let mut effects = self.publishes.iter().map(|publish| &publish.effect);
        effects.any(|effect| matches!(effect, PublishEffect::Job { .. }))
    }

    pub(super) fn storing(&self) -> Storing {
        let is_replayed = |publish: &VersionPublish<'_>| {
            let is_replayed = matches!(
                publish.effect,
                PublishEffect::Job {
                    is_replayed: true,
                    ..
                }
            );
            is_replayed && (self.always_stores() || self.spec.if_exists == IfExists::Reject)
        };
        let is_certain =
            |publish: &VersionPublish<'_>| publish.has_stored() || is_replayed(publish);
        let is_unknown = |publish: &VersionPublish<'_>| match &publish.effect {
            PublishEffect::Unknown => true,
            PublishEffect::Job { is_replayed, .. } => *is_replayed,
            PublishEffect::Nothing => false,
        };
        if self.publishes.iter().any(is_certain) || (self.is_proven && self.always_stores()) {
            return Storing::Certain;
        }
        match self.publishes.iter().any(is_unknown) {
            true => Storing::Possible,
            false => Storing::Never,
        }
    }

    /// Returns the span in which it can have been stored.
    pub(super) fn stored(&self) -> Span {
        let can_be = || {
            self.publishes
                .iter()
                .filter(|it| it.effect != PublishEffect::Nothing)
        };
        let from = can_be().map(|it| it.operation.span.from).min();
        let answered = can_be().filter(|it| matches!(it.effect, PublishEffect::Job { .. }));
        let to = answered.map(|it| it.operation.span.to).min();
        let to = to.or_else(|| can_be().map(|it| it.by).max());
        Span {
            from: from.unwrap_or_default(),
            to: to.unwrap_or(UnixMicros::MAX),
        }
    }

    /// Returns the earliest and the latest time at which it can be due.
    pub(super) fn due(&self) -> Span {
        let exact = self
            .publishes
            .iter()
            .find_map(|publish| match &publish.effect {
                PublishEffect::Job {
                    outcome:
                        PublishResult::Created | PublishResult::Replaced | PublishResult::Revived,
                    run_at: Some(run_at),
                    is_replayed: false,
                    ..
                } => Some(*run_at),
                _ => None,
            });
        // It cannot have been created before its publish began, even if its id says so.
        let created = self
            .created
            .map(|at| at.max(truncate_to_ms(self.stored().from)));
        let exact = exact.or(created.map(|at| at + self.spec.delay));
        match exact {
            Some(at) => Span { from: at, to: at },
            None => self.due_if_stored_in(self.stored()),
        }
    }

    /// Returns since when a version of the lmstfy wire is available after its last delivery, and how many tries it has
    /// then, if there were no unobserved reservations.
    pub(super) fn available_after(&self, job: &JobHistory) -> (UnixMicros, u64) {
        match job.deliveries.last() {
            None => (self.stored().to + self.spec.delay, self.spec.tries),
            Some(last) => (last.lease_until, last.tries_left.unwrap_or_default()),
        }
    }

    fn due_if_stored_in(&self, stored: Span) -> Span {
        let from = truncate_to_ms(stored.from);
        match self.spec.run_at {
            // The past means now.
            Some(at) => Span {
                from: at.max(from),
                to: at.max(stored.to),
            },
            None => Span {
                from: from + self.spec.delay,
                to: stored.to.saturating_add(self.spec.delay + MS),
            },
        }
    }
}
