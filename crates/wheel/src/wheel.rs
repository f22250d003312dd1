//! The wheel of a process.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::error::{ScheduleError, StartError};
use crate::executors::Executors;
use crate::persistence::{Memory, Persistence, SavedTask};
use crate::runs::Runs;
use crate::task::{TaskId, TimedTask};
use crate::ticks::{due_after, wall_clock};
use crate::timers::Timers;

const TASK_BYTES_MAX: usize = 16 << 20;

/// Runs tasks at their times, inside this process. Clones are handles of the same wheel.
///
/// A thread of its own watches the time, so neither slow tasks nor a blocked runtime delay the clock; due tasks wait
/// for one of [`concurrency`](crate::WheelBuilder::concurrency) places. Without [`shutdown`](Self::shutdown) the clock
/// stops when the last handle is dropped.
///
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use tidegate_wheel::{File, TimedTask, Wheel};
///
/// #[derive(Serialize, Deserialize)]
/// struct CloseOrder {
///     order: u64,
/// }
///
/// impl TimedTask for CloseOrder {
///     const TYPE: &'static str = "close-order";
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("tasks");
/// let wheel = Wheel::builder()
///     .executor(|task: CloseOrder| async move { println!("close order {}", task.order) })
///     .persistence(File::open(path)?)
///     .start()
///     .await?;
/// let close = wheel.schedule(CloseOrder { order: 17 }, Duration::from_secs(1800)).await?;
/// // The order was paid.
/// assert!(wheel.cancel(close).await?);
/// wheel.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Wheel<P: Persistence = Memory> {
    running: Arc<RunningWheel<P>>,
}

#[derive(Debug)]
struct RunningWheel<P: Persistence> {
    timers: Arc<Timers>,
    runs: Arc<Runs<P>>,
    clock: Mutex<Option<JoinHandle<()>>>,
}

impl<P: Persistence> Clone for Wheel<P> {
    fn clone(&self) -> Self {
        Self {
            running: Arc::clone(&self.running),
        }
    }
}

impl<P: Persistence> Drop for RunningWheel<P> {
    fn drop(&mut self) {
        self.timers.stop();
    }
}

impl<P: Persistence> Wheel<P> {
    pub(crate) fn start(
        tick: Duration,
        concurrency: u32,
        panic_delay: Duration,
        executors: Executors,
        persistence: P,
        saved: Vec<SavedTask>,
    ) -> Result<Self, StartError> {
        let timers = Timers::new(tick);
        for task in saved {
            let delay = task.due.duration_since(wall_clock());
            timers.insert(task, delay.unwrap_or_default());
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "it has at most the tasks that the timers had"
        )]
        let (due, receiver) = mpsc::unbounded_channel();
        let clock = timers.start_clock(due)?;
        let runs = Runs::new(
            concurrency,
            panic_delay,
            executors,
            persistence,
            Arc::clone(&timers),
        );
        tokio::spawn(Arc::clone(&runs).start_all(receiver));
        Ok(Self {
            running: Arc::new(RunningWheel {
                timers,
                runs,
                clock: Mutex::new(Some(clock)),
            }),
        })
    }

    /// Schedules a task after this delay; returns once it is saved. It is due in whole ms, rounded up, and does not
    /// start before it is saved. If the future is dropped, the task may be saved, and then runs after the next start of
    /// the wheel.
    ///
    /// # Errors
    ///
    /// See [`ScheduleError`]; the task is then not scheduled.
    pub async fn schedule<T: TimedTask>(
        &self,
        task: T,
        delay: Duration,
    ) -> Result<TaskId, ScheduleError> {
        let runs = &self.running.runs;
        let id = TaskId::new();
        let task_type = runs
            .known_type(T::TYPE)
            .ok_or(ScheduleError::NoExecutor(T::TYPE))?;
        let payload = serialize(&task)?;
        let due = due_after(delay).ok_or(ScheduleError::TooFar(delay))?;
        let saved = SavedTask {
            id,
            task_type,
            due,
            payload,
        };
        if self.running.timers.is_stopped() {
            return Err(ScheduleError::Stopped);
        }
        let begun_at = Instant::now();
        runs.persistence().save(saved.clone()).await?;
        let left = delay.saturating_sub(begun_at.elapsed());
        if !self.running.timers.insert(saved, left) {
            runs.persistence().delete(id).await?;
            return Err(ScheduleError::Stopped);
        }
        Ok(id)
    }

    /// Schedules a task at this time, or at once if it has passed.
    ///
    /// # Errors
    ///
    /// The errors of [`schedule`](Self::schedule).
    pub async fn schedule_at<T: TimedTask>(
        &self,
        task: T,
        due: SystemTime,
    ) -> Result<TaskId, ScheduleError> {
        let delay = due.duration_since(wall_clock());
        self.schedule(task, delay.unwrap_or_default()).await
    }

    /// Cancels a task that is not due; returns whether there was one. One that is due runs, also if it waits for a
    /// place.
    ///
    /// # Errors
    ///
    /// If it is cancelled, but could not be deleted where it is saved: it would run after a restart.
    pub async fn cancel(&self, id: TaskId) -> io::Result<bool> {
        if !self.running.timers.cancel(id) {
            return Ok(false);
        }
        self.running.runs.persistence().delete(id).await?;
        Ok(true)
    }

    /// Gives a task that is not due another delay, from now on; returns whether there was one. A task that is due runs,
    /// also if it waits for a place.
    ///
    /// # Errors
    ///
    /// [`TooFar`](ScheduleError::TooFar), and nothing has changed. [`NotSaved`](ScheduleError::NotSaved) if the task
    /// has its new time, but could not be saved: after a restart it would have the time before.
    pub async fn reschedule(&self, id: TaskId, delay: Duration) -> Result<bool, ScheduleError> {
        let due = due_after(delay).ok_or(ScheduleError::TooFar(delay))?;
        let persistence = self.running.runs.persistence();
        let save = |task| persistence.save(task);
        match self.running.timers.reschedule(id, due, delay, save) {
            Some(saving) => Ok(saving.await.map(|()| true)?),
            None => Ok(false),
        }
    }

    /// Returns up to `limit` tasks that are not due, in the order of their times. It sorts all waiting tasks, and the
    /// clock and other calls wait meanwhile.
    #[must_use]
    pub fn list(&self, limit: usize) -> Vec<SavedTask> {
        self.running.timers.list(limit)
    }

    /// Returns the number of tasks that are not due.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.running.timers.len()
    }

    /// Returns the number of tasks that run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.runs.running()
    }

    /// Stops: starts no other task, waits for running tasks, and closes the persistence. Waiting tasks stay saved. A
    /// task must not call this and wait for it: it would wait for itself.
    ///
    /// # Errors
    ///
    /// The errors of the persistence.
    pub async fn shutdown(&self) -> io::Result<()> {
        self.running.timers.stop();
        let clock = self.running.clock.lock().take();
        if let Some(clock) = clock {
            // It ends within one lock; a panic there was printed.
            let _ = tokio::task::spawn_blocking(|| clock.join()).await;
        }
        self.running.runs.finish().await;
        self.running.runs.persistence().close().await
    }
}

fn serialize<T: TimedTask>(task: &T) -> Result<Arc<[u8]>, ScheduleError> {
    let task_type = T::TYPE;
    let payload = serde_json::to_vec(task);
    let payload = payload.map_err(|error| ScheduleError::NotSerializable { task_type, error })?;
    match payload.len() {
        0..=TASK_BYTES_MAX => Ok(Arc::from(payload)),
        bytes => Err(ScheduleError::TooLarge { task_type, bytes }),
    }
}
