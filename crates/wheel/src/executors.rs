//! The executors of a wheel, by the type of their tasks.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::StartError;
use crate::task::{Completion, Executor, TimedTask};

const TYPE_BYTES_MAX: usize = 255;

type BoxedRun<'a> = Pin<Box<dyn Future<Output = Completion> + Send + 'a>>;

/// An executor whose type of tasks is not known to the compiler.
pub(crate) trait JsonExecutor: Send + Sync {
    /// Runs a task; an error = it is not one of the type.
    fn execute(&self, payload: &[u8]) -> Result<BoxedRun<'_>, serde_json::Error>;
}

struct TypedExecutor<T, E> {
    executor: E,
    task: PhantomData<fn(T)>,
}

impl<T: TimedTask, E: Executor<T>> JsonExecutor for TypedExecutor<T, E> {
    fn execute(&self, payload: &[u8]) -> Result<BoxedRun<'_>, serde_json::Error> {
        let task = serde_json::from_slice(payload)?;
        Ok(Box::pin(self.executor.execute(task)))
    }
}

#[derive(Default)]
pub(crate) struct Executors {
    by_type: HashMap<&'static str, Arc<dyn JsonExecutor>>,
    /// The first mistake.
    error: Option<StartError>,
}

impl fmt::Debug for Executors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_type.keys()).finish()
    }
}

impl Executors {
    pub(crate) fn add<T: TimedTask, E: Executor<T>>(&mut self, executor: E) {
        let executor = TypedExecutor {
            executor,
            task: PhantomData,
        };
        let error = if T::TYPE.len() > TYPE_BYTES_MAX {
            Some(StartError::TypeTooLong(T::TYPE))
        } else {
            let before = self.by_type.insert(T::TYPE, Arc::new(executor));
            before.map(|_| StartError::TwoExecutors(T::TYPE))
        };
        self.error = self.error.take().or(error);
    }

    /// Returns the first mistake of the builder's user.
    pub(crate) const fn take_error(&mut self) -> Option<StartError> {
        self.error.take()
    }

    pub(crate) fn of(&self, task_type: &str) -> Option<&Arc<dyn JsonExecutor>> {
        self.by_type.get(task_type)
    }
}
