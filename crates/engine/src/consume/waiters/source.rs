//! A source of jobs.

use std::sync::Arc;

use tidegate_core::QueueKey;

/// A queue in one Redis deployment. Queues of the same name in two deployments are two sources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Source {
    /// The name of the deployment's pool.
    pub pool: Arc<str>,
    pub queue: QueueKey,
}

#[cfg(test)]
impl Source {
    pub(super) fn new(pool: &str, queue: &str) -> Self {
        Self {
            pool: pool.into(),
            queue: QueueKey::try_from(queue).unwrap(),
        }
    }
}
