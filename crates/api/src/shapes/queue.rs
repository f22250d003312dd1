//! Queues as they are shown.

use tidegate_core::v1::queue::QueueView;
use tidegate_core::{JobsByState, QueueKey};
use tidegate_engine::Pool;

/// What is shown of a queue.
pub(crate) fn queue_view(pool: &Pool, queue: &QueueKey, jobs: JobsByState) -> QueueView {
    let policy = pool.policy(queue);
    QueueView {
        queue: queue.queue.clone(),
        jobs,
        paused: pool.is_paused(queue),
        paused_until: policy.paused_until,
        closed: policy.closed,
    }
}
