//! One bucket: what is to be done in it, and when it wants to be looked at again.

use std::time::Duration;

use tidegate_store::{LoadedSlot, MovedDue, PumpVerb, StoreError, Swept};
use tokio::time::Instant;

use crate::PumpConfig;
use crate::pump::Pool;

/// When the parts of a bucket want to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agenda {
    load_at: Instant,
    move_at: Instant,
    sweep_at: Instant,
}

/// How much one run does at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Timers that are looked at.
    pub(crate) moved: u64,
    /// Far timers that are loaded.
    pub(crate) loaded: u64,
    /// Chunks of jobs that are looked through.
    pub(crate) swept: u64,
}

impl Limits {
    /// As much as the settings allow.
    #[must_use]
    pub(crate) const fn of(config: &PumpConfig) -> Self {
        Self {
            moved: config.move_limit,
            loaded: config.load_limit,
            swept: config.sweep_limit,
        }
    }

    /// The lower of each.
    #[must_use]
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            moved: self.moved.min(other.moved),
            loaded: self.loaded.min(other.loaded),
            swept: self.swept.min(other.swept),
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    /// The bucket is as it should be until the agenda says otherwise.
    Leading(Agenda),
    /// Another pump leads the bucket.
    NotLeading,
}

impl Agenda {
    /// Everything is to be looked at now.
    #[must_use]
    pub(crate) fn all_now(now: Instant) -> Self {
        Self {
            load_at: now,
            move_at: now,
            sweep_at: now,
        }
    }

    /// Nothing is to be looked at for as long as the settings allow.
    #[must_use]
    pub(crate) fn nothing(config: &PumpConfig) -> Self {
        Self::all_now(Instant::now() + config.sleep_max)
    }

    /// A verb has work at `at`, perhaps earlier than planned.
    #[must_use]
    pub(crate) fn with(mut self, verb: PumpVerb, at: Instant) -> Self {
        let planned = match verb {
            PumpVerb::LoadSlot => &mut self.load_at,
            PumpVerb::MoveDue => &mut self.move_at,
            PumpVerb::Sweep => &mut self.sweep_at,
        };
        *planned = at.min(*planned);
        self
    }

    /// Both together: whatever is earlier.
    #[must_use]
    pub(crate) fn merged(self, other: Self) -> Self {
        Self {
            load_at: self.load_at.min(other.load_at),
            move_at: self.move_at.min(other.move_at),
            sweep_at: self.sweep_at.min(other.sweep_at),
        }
    }

    /// The next moment of the bucket.
    #[must_use]
    pub(crate) fn next(&self) -> Instant {
        self.load_at.min(self.move_at).min(self.sweep_at)
    }
}

/// Does what is due in a bucket: at most one bounded call of each kind, so that a bucket with a long
/// backlog lets the others have their turn. Far slots come first, as they may hold what is due.
///
/// # Errors
/// Redis is unavailable; nothing is lost, the bucket has to be run again.
pub(crate) async fn run_once(
    pool: &Pool,
    bucket: u16,
    mut agenda: Agenda,
    limits: Limits,
) -> Result<Ran, StoreError> {
    let Pool {
        store,
        token,
        config,
        ..
    } = pool;
    if agenda.load_at <= Instant::now() {
        match store.load_slot(bucket, token, limits.loaded).await? {
            LoadedSlot::NotLeading => return Ok(Ran::NotLeading),
            LoadedSlot::Done {
                loaded,
                more,
                next_in_ms,
            } => {
                pool.measures.loaded(loaded);
                agenda.load_at = after(more, next_in_ms.map(Duration::from_millis), config);
            }
        }
    }
    let moved = store.move_due(bucket, token, limits.moved).await?;
    pool.measures.moved(&moved);
    match moved {
        MovedDue::NotLeading => return Ok(Ran::NotLeading),
        MovedDue::Done {
            more, next_in_us, ..
        } => {
            agenda.move_at = after(more, next_in_us.map(Duration::from_micros), config);
        }
    }
    if agenda.sweep_at <= Instant::now() {
        match store.sweep(bucket, token, limits.swept).await? {
            Swept::NotLeading => return Ok(Ran::NotLeading),
            Swept::Done {
                expired,
                more,
                next_in_ms,
            } => {
                pool.measures.swept(expired);
                agenda.sweep_at = after(more, next_in_ms.map(Duration::from_millis), config);
            }
        }
    }
    Ok(Ran::Leading(agenda))
}

/// The moment for the next call of a kind. It never is further away than the longest sleep: a message
/// that got lost costs that much and no more.
fn after(more: bool, wait: Option<Duration>, config: &PumpConfig) -> Instant {
    let wait = if more {
        Duration::ZERO
    } else {
        wait.unwrap_or(config.sleep_max)
    };
    Instant::now() + wait.min(config.sleep_max)
}
