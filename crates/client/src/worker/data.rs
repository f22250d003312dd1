//! The values that all handlers of a worker share.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

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

    pub(super) fn get<T: Send + Sync + 'static>(&self) -> Result<Data<T>, MissingData> {
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

impl RequiredData {
    pub(super) fn of<T: 'static>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
        }
    }
}
