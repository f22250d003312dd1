//! The table of policies of a deployment.

use redis::Cmd;
use tidegate_core::{QueueKey, keys};

use super::stored::StoredPolicy;
use crate::error::StoreError;
use crate::store::Store;

/// The field with the last revision.
pub(super) const LAST_REVISION: &str = "#";

/// The number of changes that the table lists, and the most fields of a page of it.
pub(super) const PAGE: u64 = 500;

/// The policies of the queues of a deployment.
#[derive(Debug, Clone)]
pub struct Policies {
    pub(super) store: Store,
}

impl Policies {
    /// The stored policy of a queue.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn get(&self, queue: &QueueKey) -> Result<StoredPolicy, StoreError> {
        let field = Cmd::hget(keys::POLICIES, queue.to_string());
        let text: Option<String> = self.store.command(&field).await?;
        Ok(StoredPolicy::parse(text))
    }

    /// The stored policies of several queues, in their order.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn of_queues(&self, queues: &[&QueueKey]) -> Result<Vec<StoredPolicy>, StoreError> {
        let mut fields = redis::cmd("HMGET");
        fields.arg(keys::POLICIES);
        for queue in queues {
            fields.arg(queue.to_string());
        }
        let texts: Vec<Option<String>> = self.store.command(&fields).await?;
        Ok(texts.into_iter().map(StoredPolicy::parse).collect())
    }

    /// The time on the clock of the server that has the table, in ms since 1970, at some moment of this call.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn now_ms(&self) -> Result<u64, StoreError> {
        self.store.server_now_ms(keys::POLICIES).await
    }
}

impl Store {
    /// The policies of this deployment.
    #[must_use]
    pub fn policies(&self) -> Policies {
        let store = self.clone();
        Policies { store }
    }
}
