//! How much of its limits a namespace uses.

use tidegate_core::v1::namespace::NamespaceLimitUse;
use tidegate_core::{Namespace, NamespaceLimits};

use super::job_room::unfinished;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::pool::Pool;

impl Engine {
    /// How much of its limits a namespace uses in a pool. Queues and jobs were counted a few seconds ago; those in
    /// buckets that cannot be read are missing.
    ///
    /// # Errors
    /// Redis gave no answer.
    pub async fn namespace_use(
        &self,
        pool: &Pool,
        namespace: &Namespace,
    ) -> Result<Vec<NamespaceLimitUse>, EngineError> {
        let sizes = pool.sizes().await.ok_or(EngineError::StorageFailed)?;
        let overview = sizes.overview_of(|queue| queue.namespace == *namespace);
        let (schedules, policies, limits, relays, api_keys) = tokio::try_join!(
            pool.schedules.count_of(namespace),
            pool.policies.count_of(namespace),
            pool.policies.count_limits_of(namespace),
            self.relays.count_of(namespace),
            self.keys.count_of(namespace),
        )?;
        let used = NamespaceLimits {
            queues: Some(overview.queues.len() as u64),
            policies: Some(policies),
            limits: Some(limits),
            schedules: Some(schedules),
            relays: Some(relays),
            api_keys: Some(api_keys),
            jobs: Some(unfinished(overview.total().stats)),
            publishes_per_second: None,
            waiting_consumers: Some(self.room.of_namespace(namespace) as u64),
        };
        let limits = self.namespaces.limits(namespace);
        let rows = limits.by_name().into_iter().zip(used.by_name());
        let rows = rows.map(|((name, max), (_, used))| NamespaceLimitUse {
            name: name.to_owned(),
            used,
            max,
        });
        Ok(rows.collect())
    }
}
