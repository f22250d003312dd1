//! The tick to publish now, and the next tick.

use super::catch_up::{CatchUp, CatchUpRule};
use super::rule::ScheduleRule;

/// A tick that was not published for so long, in ms, is missed: no pump was running.
pub const MISSED_AFTER_MS: u64 = 10_000;

/// The plan for the due tick of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickPlan {
    /// The tick for which a job is published, in ms since 1970; `None` = none is.
    pub publish_ms: Option<u64>,
    /// The next tick; `None` = the schedule has ended.
    pub next_ms: Option<u64>,
}

impl TickPlan {
    /// The plan at `now_ms` if `due_ms`, which is not later, is the first tick without a published job.
    pub fn new(rule: &ScheduleRule, catch_up: CatchUpRule, due_ms: u64, now_ms: u64) -> Self {
        let window_ms = catch_up.window_ms.unwrap_or(u64::MAX);
        let window_ms = match catch_up.which {
            CatchUp::None => window_ms.min(MISSED_AFTER_MS),
            CatchUp::One | CatchUp::All => window_ms,
        };
        let is_missed = now_ms.saturating_sub(due_ms) > MISSED_AFTER_MS;
        let tick_ms = match catch_up.which {
            CatchUp::One if is_missed => {
                let recent_ms = now_ms - window_ms.min(MISSED_AFTER_MS);
                let recent = first_since(rule, due_ms, recent_ms).filter(|tick| *tick <= now_ms);
                recent.or_else(|| last_due(rule, due_ms, now_ms))
            }
            // One after the other: all ticks that are not missed are published, however many there are.
            _ => first_since(rule, due_ms, now_ms.saturating_sub(window_ms)),
        };
        match tick_ms {
            Some(tick_ms) if tick_ms <= now_ms && now_ms - tick_ms <= window_ms => Self {
                publish_ms: Some(tick_ms),
                next_ms: rule.next_after(tick_ms),
            },
            _ => Self {
                publish_ms: None,
                next_ms: rule.next_after(now_ms),
            },
        }
    }
}

/// The first tick at or after `oldest_ms` that no job was published for.
fn first_since(rule: &ScheduleRule, due_ms: u64, oldest_ms: u64) -> Option<u64> {
    match due_ms >= oldest_ms {
        true => Some(due_ms),
        false => rule.next_after(oldest_ms - 1),
    }
}

/// The last tick that is due.
fn last_due(rule: &ScheduleRule, due_ms: u64, now_ms: u64) -> Option<u64> {
    Some(rule.last_until(now_ms).unwrap_or(due_ms).max(due_ms))
}
