//! Tasks that are due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::executors::Executors;
use crate::persistence::{Persistence, SavedTask};
use crate::task::Completion;
use crate::ticks::due_after;
use crate::timers::Timers;

/// Runs due tasks, a bounded number at a time.
#[derive(Debug)]
pub(crate) struct Runs<P> {
    places: Arc<Semaphore>,
    concurrency: u32,
    panic_delay: Duration,
    executors: Executors,
    persistence: P,
    timers: Arc<Timers>,
}

impl<P: Persistence> Runs<P> {
    pub(crate) fn new(
        concurrency: u32,
        panic_delay: Duration,
        executors: Executors,
        persistence: P,
        timers: Arc<Timers>,
    ) -> Arc<Self> {
        Arc::new(Self {
            places: Arc::new(Semaphore::new(concurrency as usize)),
            concurrency,
            panic_delay,
            executors,
            persistence,
            timers,
        })
    }

    pub(crate) const fn persistence(&self) -> &P {
        &self.persistence
    }

    /// Returns a type that has an executor, as saved tasks have it.
    pub(crate) fn known_type(&self, task_type: &'static str) -> Option<Arc<str>> {
        self.executors.of(task_type).map(|_| Arc::from(task_type))
    }

    pub(crate) fn running(&self) -> usize {
        self.concurrency as usize - self.places.available_permits()
    }

    /// Starts tasks as they become due, until the timers stop.
    pub(crate) async fn start_all(self: Arc<Self>, mut due: UnboundedReceiver<SavedTask>) {
        while let Some(task) = due.recv().await {
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                return;
            };
            if self.timers.is_stopped() {
                return;
            }
            let runs = Arc::clone(&self);
            tokio::spawn(async move {
                runs.run(task).await;
                drop(place);
            });
        }
    }

    /// Waits for the tasks that run. No other one starts.
    pub(crate) async fn finish(&self) {
        // An error means that it was finished before.
        let _ = self.places.acquire_many(self.concurrency).await;
        self.places.close();
    }

    async fn run(&self, task: SavedTask) {
        let Some(executor) = self.executors.of(&task.task_type).map(Arc::clone) else {
            return;
        };
        let payload = Arc::clone(&task.payload);
        // A task of its own, which catches a panic.
        let run = tokio::spawn(async move { Ok(executor.execute(&payload)?.await) });
        let result: Result<Result<Completion, serde_json::Error>, _> = run.await;
        let (id, task_type) = (task.id, Arc::clone(&task.task_type));
        let ended = match result {
            Ok(Ok(Completion::RunAgainIn(delay))) => self.run_again(task, delay).await,
            Ok(Ok(Completion::Done)) => self.persistence.delete(id).await,
            Ok(Err(error)) => {
                tracing::error!(
                    "failed to read a task, which stays saved: id={id} type={task_type} error={error}"
                );
                return;
            }
            Err(error) => {
                let delay = self.panic_delay;
                tracing::error!(
                    "a task has panicked: id={id} type={task_type} error={error}; it runs again in {delay:?}"
                );
                self.run_again(task, delay).await
            }
        };
        if let Err(error) = ended {
            tracing::warn!(
                "failed to save the end of a run, so the task may run again after a restart: id={id} type={task_type} error={error}"
            );
        }
    }

    async fn run_again(&self, mut task: SavedTask, delay: Duration) -> std::io::Result<()> {
        let Some(due) = due_after(delay) else {
            let message = format!("the delay {delay:?} is too long");
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                message,
            ));
        };
        task.due = due;
        let saving = self.persistence.save(task.clone());
        self.timers.insert(task, delay);
        saving.await
    }
}
