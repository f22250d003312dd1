//! Typed tasks.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind of job: its payload, its queue, and the result of its handler.
///
/// The payload is stored as JSON. Old payloads may still be in the queue when you deploy a new version of a task, so
/// give new fields a default (`#[serde(default)]`).
pub trait Task: Serialize + DeserializeOwned + Send + 'static {
    /// The queue of these tasks: letters, digits, `-` and `_`. Each type of task needs its own queue.
    const QUEUE: &'static str;
    /// The result of the handler. `()` for nothing.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
}
