//! A run of one bucket, and the times of its next calls.

use std::time::{Duration, SystemTime};

use tidegate_daemon::traces::{FinishedSpan, SpanRole, Traces, wall_clock};
use tidegate_store::{
    LoadSlotOutcome, MoveDueOutcome, PumpVerb, SCHEDULES_DUE_MAX, StoreError, SweepOutcome,
};
use tokio::time::Instant;

use crate::config::PumpConfig;
use crate::instance::Instance;
use crate::schedules::publish_due;

/// The next calls for a bucket: when further work becomes due, and the calls that have left due work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallSchedule {
    load_at: Instant,
    move_at: Instant,
    sweep_at: Instant,
    /// `None` = the bucket has no schedule, as far as is known. `load_slot` finds out.
    publish_at: Option<Instant>,
    left: LeftWork,
}

/// The calls that reached their limit and have left due work, the backlog of a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LeftWork {
    loads: bool,
    moves: bool,
    sweeps: bool,
    ticks: bool,
}

impl LeftWork {
    fn merged(self, other: Self) -> Self {
        Self {
            loads: self.loads || other.loads,
            moves: self.moves || other.moves,
            sweeps: self.sweeps || other.sweeps,
            ticks: self.ticks || other.ticks,
        }
    }
}

/// The limits of the calls of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunLimits {
    /// Maximum number of timers that `move_due` takes.
    pub(crate) moved: u64,
    /// Maximum number of far timers that `load_slot` loads.
    pub(crate) loaded: u64,
    /// Maximum number of chunks that `sweep` reads.
    pub(crate) swept: u64,
    /// Maximum number of schedules for which jobs are published.
    pub(crate) published: u64,
}

impl RunLimits {
    /// The limits in the settings.
    #[must_use]
    pub(crate) const fn of(config: &PumpConfig) -> Self {
        Self {
            moved: config.move_limit,
            loaded: config.load_limit,
            swept: config.sweep_limit,
            published: SCHEDULES_DUE_MAX,
        }
    }

    /// The lower limit of each call.
    #[must_use]
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            moved: self.moved.min(other.moved),
            loaded: self.loaded.min(other.loaded),
            swept: self.swept.min(other.swept),
            published: self.published.min(other.published),
        }
    }
}

impl CallSchedule {
    /// All calls are due at `now`.
    #[must_use]
    pub(crate) fn all_now(now: Instant) -> Self {
        Self {
            load_at: now,
            move_at: now,
            sweep_at: now,
            publish_at: None,
            left: LeftWork::default(),
        }
    }

    /// All calls are due after `sleep_max`, the maximum time between two runs.
    #[must_use]
    pub(crate) fn after_sleep_max(config: &PumpConfig) -> Self {
        Self::all_now(Instant::now() + config.sleep_max)
    }

    /// `move_due` has left due jobs.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn with_backlog(mut self) -> Self {
        self.left.moves = true;
        self
    }

    /// The call of this verb is due at `at`, unless it is due earlier.
    #[must_use]
    pub(crate) fn with(mut self, verb: PumpVerb, at: Instant) -> Self {
        let planned = match verb {
            PumpVerb::LoadSlot => &mut self.load_at,
            PumpVerb::MoveDue => &mut self.move_at,
            PumpVerb::Sweep => &mut self.sweep_at,
            PumpVerb::Schedules => self.publish_at.get_or_insert(at),
        };
        *planned = at.min(*planned);
        self
    }

    /// The earlier time of each call.
    #[must_use]
    pub(crate) fn merged(self, other: Self) -> Self {
        Self {
            load_at: self.load_at.min(other.load_at),
            move_at: self.move_at.min(other.move_at),
            sweep_at: self.sweep_at.min(other.sweep_at),
            publish_at: self.publish_at.into_iter().chain(other.publish_at).min(),
            left: self.left.merged(other.left),
        }
    }

    /// Whether the last calls have left due work.
    #[must_use]
    pub(crate) fn has_backlog(&self) -> bool {
        self.left != LeftWork::default()
    }

    /// When further work is due first.
    #[must_use]
    pub(crate) fn first(&self) -> Instant {
        let others = self.load_at.min(self.move_at).min(self.sweep_at);
        self.publish_at.map_or(others, |at| at.min(others))
    }
}

/// Makes the due calls for a bucket: at most one call of each kind, with limits, so that a bucket with a long backlog
/// does not block others. `move_due` is always called. `load_slot` comes first, since far slots may contain due timers.
/// Jobs of schedules are published if a tick is due, by one call for up to so many schedules.
/// Returns when the next calls are due, and which have left work; `None` if this instance does not lead the bucket.
///
/// # Errors
/// Redis is unavailable, or a reply is invalid. The bucket has to be run again; no job is lost.
pub(crate) async fn run_once(
    instance: &Instance,
    bucket: u16,
    mut schedule: CallSchedule,
    limits: RunLimits,
) -> Result<Option<CallSchedule>, StoreError> {
    let Instance {
        store,
        token,
        config,
        ..
    } = instance;
    if schedule.left.loads || schedule.load_at <= Instant::now() {
        let sent_at = Instant::now();
        match store.load_slot(bucket, token, limits.loaded).await? {
            LoadSlotOutcome::NotLeading => return Ok(None),
            LoadSlotOutcome::Done {
                loaded,
                more,
                next_in_ms,
                next_tick_in_ms,
            } => {
                instance.measures.loaded(loaded);
                let wait = next_in_ms.map(Duration::from_millis);
                schedule.left.loads = more;
                schedule.load_at = after(wait.filter(|_| !more), sent_at, config);
                let tick = next_tick_in_ms.map(Duration::from_millis);
                schedule.publish_at = tick.map(|tick| after(Some(tick), sent_at, config));
            }
        }
    }
    let began_at = instance.traces.as_ref().map(|_| wall_clock());
    let sent_at = Instant::now();
    let moved = store
        .move_due(bucket, token, limits.moved, config.losses_max)
        .await?;
    instance.measures.moved(&moved);
    if let (Some(traces), Some(began_at)) = (&instance.traces, began_at) {
        record_run(traces, bucket, began_at, &moved);
    }
    match moved {
        MoveDueOutcome::NotLeading => return Ok(None),
        MoveDueOutcome::Done {
            more, next_in_us, ..
        } => {
            let wait = next_in_us.map(Duration::from_micros);
            schedule.left.moves = more;
            schedule.move_at = after(wait, sent_at, config);
        }
    }
    if schedule.left.sweeps || schedule.sweep_at <= Instant::now() {
        let sent_at = Instant::now();
        match store.sweep(bucket, token, limits.swept).await? {
            SweepOutcome::NotLeading => return Ok(None),
            SweepOutcome::Done {
                expired,
                more,
                next_in_ms,
            } => {
                instance.measures.swept(expired);
                let wait = next_in_ms.map(Duration::from_millis);
                schedule.left.sweeps = more;
                schedule.sweep_at = after(wait.filter(|_| !more), sent_at, config);
            }
        }
    }
    let has_ticks =
        schedule.left.ticks || schedule.publish_at.is_some_and(|at| at <= Instant::now());
    if has_ticks && !publish_ticks(instance, bucket, limits.published, &mut schedule).await? {
        return Ok(None);
    }
    Ok(Some(schedule))
}

/// Publishes the jobs of due ticks. Returns whether this instance leads the bucket.
async fn publish_ticks(
    instance: &Instance,
    bucket: u16,
    limit: u64,
    schedule: &mut CallSchedule,
) -> Result<bool, StoreError> {
    let sent_at = Instant::now();
    let Some(next) = publish_due(instance, bucket, limit).await? else {
        return Ok(false);
    };
    schedule.left.ticks = next.more;
    let is_none = next.after.is_none() && !next.more;
    schedule.publish_at = (!is_none).then(|| after(next.after, sent_at, &instance.config));
    Ok(true)
}

/// Records a call that moved jobs, if it is sampled. Each is a separate trace: the spans of its jobs are not known
/// here.
fn record_run(traces: &Traces, bucket: u16, began_at: SystemTime, moved: &MoveDueOutcome) {
    let MoveDueOutcome::Done {
        more,
        buried,
        expired,
        latenesses_ms,
        ..
    } = moved
    else {
        return;
    };
    if latenesses_ms.is_empty() && *buried == 0 && *expired == 0 {
        return;
    }
    let Some(context) = traces.sampled_root() else {
        return;
    };
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let lateness_ms = latenesses_ms.iter().copied().max().unwrap_or_default();
    let name = bucket.to_string();
    traces.record(
        FinishedSpan::new(SpanRole::Internal, context, "move_due", name, began_at)
            .with("tidegate.ready", count(latenesses_ms.len() as u64))
            .with("tidegate.dead", count(*buried))
            .with("tidegate.expired", count(*expired))
            .with("tidegate.lateness_ms", count(lateness_ms))
            .with("tidegate.more", *more),
    );
}

/// The time of the next call of a kind: at most `sleep_max` from now, which bounds the delay by a lost message. `wait`
/// is in the reply to a call that was sent at `sent_at`.
fn after(wait: Option<Duration>, sent_at: Instant, config: &PumpConfig) -> Instant {
    let wait = wait.unwrap_or(config.sleep_max).min(config.sleep_max);
    Instant::now() + time_left(wait, Some(sent_at.elapsed()))
}

/// A reply or a message that was on its way for up to this long counts as just sent: otherwise most
/// runs would begin too early by the time of a message, and find nothing.
const ON_TIME_MAX: Duration = Duration::from_millis(50);

/// The rest of a wait that a server has sent, if up to `passed` has passed since. Replies and messages arrive late
/// after this process or the network was paused.
pub(crate) fn time_left(wait: Duration, passed: Option<Duration>) -> Duration {
    let late_by = passed.filter(|passed| *passed > ON_TIME_MAX);
    wait.saturating_sub(late_by.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_late_leaves_less_time() {
        let ms = Duration::from_millis;
        for (wait, passed, left) in [
            (7000, None, 7000),
            (7000, Some(50), 7000),
            (7000, Some(51), 6949),
            (7000, Some(7001), 0),
            (0, Some(60_000), 0),
        ] {
            assert_eq!(
                time_left(ms(wait), passed.map(ms)),
                ms(left),
                "{wait} {passed:?}"
            );
        }
    }
}
