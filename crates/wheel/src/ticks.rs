//! Time in ticks since the start of a wheel.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Measures time by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    started: Instant,
    tick: Duration,
}

impl Ticks {
    pub(crate) fn start(tick: Duration) -> Self {
        Self {
            started: Instant::now(),
            tick,
        }
    }

    /// Returns the tick that has begun last.
    pub(crate) fn now(&self) -> u64 {
        self.count(self.started.elapsed())
    }

    /// Returns the first tick that does not begin before this time has passed; without a delay the tick that has begun.
    pub(crate) fn after(&self, delay: Duration) -> u64 {
        if delay.is_zero() {
            return self.now();
        }
        let since_start = self.started.elapsed().saturating_add(delay);
        let begun = self.count(since_start);
        let is_exact = self.duration(begun) == Some(since_start);
        begun.saturating_add(u64::from(!is_exact))
    }

    /// Returns when a tick begins; `None` = later than clocks can say.
    pub(crate) fn begin_of(&self, tick: u64) -> Option<Instant> {
        self.started.checked_add(self.duration(tick)?)
    }

    fn count(&self, duration: Duration) -> u64 {
        u64::try_from(duration.as_nanos() / self.tick.as_nanos()).unwrap_or(u64::MAX)
    }

    fn duration(&self, ticks: u64) -> Option<Duration> {
        let nanos = u128::from(ticks) * self.tick.as_nanos();
        let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
        Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
    }
}

/// Returns the time of day, by which saved tasks are due. A restart finds their delays by it.
pub(crate) fn wall_clock() -> SystemTime {
    #[expect(
        clippy::disallowed_methods,
        reason = "these tasks belong to this process, not to Redis"
    )]
    SystemTime::now()
}

/// Returns the time after a delay, rounded up to whole ms; `None` = later than 64 bits of ms, or than the clock.
pub(crate) fn due_after(delay: Duration) -> Option<SystemTime> {
    let due = wall_clock().checked_add(delay)?;
    let since_epoch = due.duration_since(UNIX_EPOCH).ok()?;
    let millis = since_epoch.as_nanos().div_ceil(1_000_000);
    UNIX_EPOCH.checked_add(Duration::from_millis(u64::try_from(millis).ok()?))
}
