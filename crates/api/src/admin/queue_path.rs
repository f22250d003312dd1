//! The queue and the pool of a request about lanes or a policy.

use std::sync::Arc;

use tidegate_core::QueueKey;
use tidegate_engine::Pool;

use super::error::AdminError;
use crate::app::App;
use crate::http::query::Query;

/// The queue that a path names.
pub(super) fn parse_queue_key(namespace: &str, queue: &str) -> Result<QueueKey, AdminError> {
    Ok(QueueKey {
        namespace: namespace.try_into().map_err(AdminError::QueueName)?,
        queue: queue.try_into().map_err(AdminError::QueueName)?,
    })
}

/// The pool of `?pool=`; without it, the default pool.
pub(super) fn pool<'a>(app: &'a App, query: &Query<'_>) -> Result<&'a Arc<Pool>, AdminError> {
    let name = query.get("pool").unwrap_or_default();
    app.pool(&name).ok_or(AdminError::NoSuchPool)
}
