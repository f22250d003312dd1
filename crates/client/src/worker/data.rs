//! What handlers get besides their tasks.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::job::Job;

/// A value that all handlers of a worker share, such as a pool of connections: [`Worker::data`](crate::Worker::data).
#[derive(Debug)]
pub struct Data<T> {
    value: Arc<T>,
}

impl<T> Clone for Data<T> {
    fn clone(&self) -> Self {
        let value = Arc::clone(&self.value);
        Self { value }
    }
}

impl<T> Deref for Data<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A handler has an argument `Data<T>`, and the worker has no such data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a handler needs Data<{0}>, which the worker does not have: add it with .data(…)")]
pub struct MissingData(&'static str);

/// The data of a worker, by type.
#[derive(Debug, Default)]
pub(super) struct DataMap(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl DataMap {
    pub(super) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    fn get<T: Send + Sync + 'static>(&self) -> Result<Data<T>, MissingData> {
        let found = self.0.get(&TypeId::of::<T>()).cloned();
        let found = found.and_then(|value| value.downcast::<T>().ok());
        found
            .map(|value| Data { value })
            .ok_or(MissingData(type_name::<T>()))
    }

    pub(super) fn check(&self, required: &[RequiredData]) -> Result<(), MissingData> {
        let missing = required.iter().find(|data| !self.0.contains_key(&data.id));
        missing.map_or(Ok(()), |data| Err(MissingData(data.name)))
    }
}

/// Data that an argument of a handler needs.
#[derive(Debug, Clone, Copy)]
pub struct RequiredData {
    id: TypeId,
    name: &'static str,
}

/// An argument of a handler behind the task: a [`Job`], [`Data`], or the token of [`Job::cancelled`](crate::Job::cancelled).
pub trait FromJob: Sized + Send + 'static {
    /// Takes the argument from the job.
    ///
    /// # Errors
    /// The worker does not have the data. Workers check this when they start.
    fn from_job(job: &Job) -> Result<Self, MissingData>;

    /// The data that the worker must have.
    #[must_use]
    fn required_data() -> Option<RequiredData> {
        None
    }
}

impl FromJob for Job {
    fn from_job(job: &Job) -> Result<Self, MissingData> {
        Ok(job.clone())
    }
}

impl FromJob for CancellationToken {
    fn from_job(job: &Job) -> Result<Self, MissingData> {
        Ok(job.cancelled().clone())
    }
}

impl<T: Send + Sync + 'static> FromJob for Data<T> {
    fn from_job(job: &Job) -> Result<Self, MissingData> {
        job.data().get()
    }

    fn required_data() -> Option<RequiredData> {
        Some(RequiredData {
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
        })
    }
}
