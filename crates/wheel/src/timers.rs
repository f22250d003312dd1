//! The waiting tasks, and the thread that takes them out when they are due.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::mpsc::UnboundedSender;

use crate::persistence::SavedTask;
use crate::task::TaskId;
use crate::ticks::Ticks;
use crate::timing_wheel::{TimerKey, TimingWheel};

/// How many timers the clock moves or takes out while other threads wait for the lock: less than 1 ms.
const STEPS: usize = 1024;

/// The slots of the wheel are finer than its ticks: a task waits for the begin of a slot, and then for the tasks that
/// are due in the same slot, and should start within a tick.
const SLOTS_PER_TICK: u32 = 4;

/// The waiting tasks of a wheel.
#[derive(Debug)]
pub(crate) struct Timers {
    waiting: Mutex<Waiting>,
    /// Notified when the clock has something to do earlier than it knows.
    changed: Condvar,
    ticks: Ticks,
}

#[derive(Debug)]
struct Waiting {
    wheel: TimingWheel<SavedTask>,
    keys: HashMap<TaskId, TimerKey>,
    /// The tick until which the clock sleeps.
    sleeps_until: u64,
    is_stopped: bool,
}

impl Timers {
    pub(crate) fn new(tick: Duration) -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::new(Waiting {
                wheel: TimingWheel::new(),
                keys: HashMap::new(),
                sleeps_until: 0,
                is_stopped: false,
            }),
            changed: Condvar::new(),
            ticks: Ticks::start(tick / SLOTS_PER_TICK),
        })
    }

    /// Starts the clock, on a thread of its own. It sends each task when it is due, until the timers are stopped or the
    /// receiver is dropped.
    pub(crate) fn start_clock(
        self: &Arc<Self>,
        due: UnboundedSender<SavedTask>,
    ) -> io::Result<JoinHandle<()>> {
        let timers = Arc::clone(self);
        let clock = thread::Builder::new().name("wheel-clock".to_owned());
        clock.spawn(move || timers.run_clock(&due))
    }

    /// Adds a task that is due after this time; returns whether it was added: not once the clock has stopped.
    pub(crate) fn insert(&self, task: SavedTask, delay: Duration) -> bool {
        let tick = self.ticks.after(delay);
        let mut waiting = self.waiting.lock();
        if waiting.is_stopped {
            return false;
        }
        self.put(&mut waiting, tick, task);
        true
    }

    fn put(&self, waiting: &mut Waiting, tick: u64, task: SavedTask) {
        let id = task.id;
        let key = waiting.wheel.insert(tick, task);
        waiting.keys.insert(id, key);
        if tick < waiting.sleeps_until {
            self.changed.notify_one();
        }
    }

    /// Removes a task; returns whether it was waiting.
    pub(crate) fn cancel(&self, id: TaskId) -> bool {
        let mut waiting = self.waiting.lock();
        let Some(key) = waiting.keys.remove(&id) else {
            return false;
        };
        waiting.wheel.cancel(key).is_some()
    }

    /// Moves a waiting task to another time. `save` is called before another function can take the task out; it returns
    /// what `save` returns, or `None` if the task does not wait.
    pub(crate) fn reschedule<R>(
        &self,
        id: TaskId,
        due: SystemTime,
        delay: Duration,
        save: impl FnOnce(SavedTask) -> R,
    ) -> Option<R> {
        let tick = self.ticks.after(delay);
        let mut waiting = self.waiting.lock();
        let key = waiting.keys.remove(&id)?;
        let mut task = waiting.wheel.cancel(key)?;
        task.due = due;
        let saving = save(task.clone());
        self.put(&mut waiting, tick, task);
        Some(saving)
    }

    /// The waiting tasks that are due first, in the order of their times.
    pub(crate) fn list(&self, limit: usize) -> Vec<SavedTask> {
        let waiting = self.waiting.lock();
        let mut tasks: Vec<&SavedTask> = waiting.wheel.values().collect();
        tasks.sort_unstable_by_key(|task| (task.due, task.id));
        tasks.into_iter().take(limit).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().wheel.len()
    }

    /// Stops the clock. Tasks stay.
    pub(crate) fn stop(&self) {
        self.waiting.lock().is_stopped = true;
        self.changed.notify_one();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.waiting.lock().is_stopped
    }

    fn run_clock(&self, due: &UnboundedSender<SavedTask>) {
        let mut expired = Vec::new();
        let mut waiting = self.waiting.lock();
        while !waiting.is_stopped {
            let is_done = waiting.wheel.advance(self.ticks.now(), STEPS, &mut expired);
            for (_, task) in expired.drain(..) {
                waiting.keys.remove(&task.id);
                // Without a receiver the wheel is gone, and `stop` follows.
                let _ = due.send(task);
            }
            if is_done {
                self.sleep(&mut waiting);
            } else {
                MutexGuard::bump(&mut waiting);
            }
        }
    }

    fn sleep(&self, waiting: &mut MutexGuard<'_, Waiting>) {
        let next = waiting.wheel.next_tick();
        waiting.sleeps_until = next.unwrap_or(u64::MAX);
        match next.and_then(|tick| self.ticks.begin_of(tick)) {
            Some(begin) => {
                self.changed.wait_until(waiting, begin);
            }
            None => self.changed.wait(waiting),
        }
        waiting.sleeps_until = 0;
    }
}
