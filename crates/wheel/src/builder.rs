//! The settings of a wheel.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::StartError;
use crate::executors::Executors;
use crate::persistence::{Memory, Persistence, SavedTask};
use crate::task::{Executor, TimedTask};
use crate::wheel::Wheel;

const TICK_MIN: Duration = Duration::from_millis(1);
const TICK_MAX: Duration = Duration::from_secs(60);

/// Settings of a [`Wheel`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct WheelBuilder<P> {
    tick: Duration,
    concurrency: u32,
    panic_delay: Duration,
    executors: Executors,
    persistence: P,
}

impl Default for WheelBuilder<Memory> {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(10),
            concurrency: 64,
            panic_delay: Duration::from_secs(60),
            executors: Executors::default(),
            persistence: Memory,
        }
    }
}

impl Wheel<Memory> {
    /// Returns the default settings.
    pub fn builder() -> WheelBuilder<Memory> {
        WheelBuilder::default()
    }
}

impl<P: Persistence> WheelBuilder<P> {
    /// The resolution: a task starts up to one tick late, never early. 1 ms to 1 min, 10 ms by default.
    pub const fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// How many tasks run at a time, at least 1, by default 64. Others that are due wait.
    pub const fn concurrency(mut self, concurrency: u32) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// When a task runs again whose run has panicked, by default after 1 min. A delay of more than the calendar holds
    /// keeps the task until the next start of the wheel.
    pub const fn panic_delay(mut self, panic_delay: Duration) -> Self {
        self.panic_delay = panic_delay;
        self
    }

    /// Adds an executor for a type of tasks.
    pub fn executor<T: TimedTask, E: Executor<T>>(mut self, executor: E) -> Self {
        self.executors.add(executor);
        self
    }

    /// Where tasks are saved, by default [`Memory`].
    pub fn persistence<Q: Persistence>(self, persistence: Q) -> WheelBuilder<Q> {
        WheelBuilder {
            tick: self.tick,
            concurrency: self.concurrency,
            panic_delay: self.panic_delay,
            executors: self.executors,
            persistence,
        }
    }

    /// Loads the saved tasks and starts the clock. Tasks that became due while no wheel ran start at once. Call it in a
    /// Tokio runtime, which then runs the tasks.
    ///
    /// # Errors
    ///
    /// If a setting is not valid, tasks cannot be loaded, or a saved task has no executor.
    pub async fn start(mut self) -> Result<Wheel<P>, StartError> {
        if !(TICK_MIN..=TICK_MAX).contains(&self.tick) {
            return Err(StartError::TickOutOfRange(self.tick));
        }
        if self.concurrency == 0 {
            return Err(StartError::NoConcurrency);
        }
        if let Some(error) = self.executors.take_error() {
            return Err(error);
        }
        let saved = self.persistence.load().await?;
        check_types(&saved, &self.executors)?;
        Wheel::start(
            self.tick,
            self.concurrency,
            self.panic_delay,
            self.executors,
            self.persistence,
            saved,
        )
    }
}

fn check_types(saved: &[SavedTask], executors: &Executors) -> Result<(), StartError> {
    let mut without = HashMap::<&str, usize>::new();
    for task in saved
        .iter()
        .filter(|task| executors.of(&task.task_type).is_none())
    {
        *without.entry(&task.task_type).or_default() += 1;
    }
    match without.into_iter().max_by_key(|(_, count)| *count) {
        None => Ok(()),
        Some((task_type, count)) => Err(StartError::NoExecutor {
            task_type: task_type.to_owned(),
            count,
        }),
    }
}
