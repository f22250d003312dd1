//! The directory: in which queues a namespace has a job with some key. It is for clients that name a job by its key
//! alone, and for them keys are unique in their namespace.
//!
//! An entry is a hint: it may name a queue without such a job, and may be lost or expired while there is one. It has
//! several queues while a job moves from one to another.

use std::time::Duration;

use redis::Cmd;
use tidegate_core::{Namespace, QueueName, keys};

use crate::error::StoreError;
use crate::store::Store;

/// Between the names of an entry, none of which has it.
const SEPARATOR: char = ',';

/// The directory of one deployment. Cheap to clone.
#[derive(Debug, Clone)]
pub struct JobDirectory {
    store: Store,
}

impl JobDirectory {
    /// Stores the queues in which the job with this key may be, for the time `kept`, and returns the queues that were
    /// stored before.
    ///
    /// # Errors
    /// Redis is unavailable. The entry may have been stored.
    pub async fn set(
        &self,
        namespace: &Namespace,
        key: &str,
        queues: &[QueueName],
        kept: Duration,
    ) -> Result<Vec<QueueName>, StoreError> {
        let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
        let mut set = redis::cmd("SET");
        set.arg(keys::directory(namespace.as_str(), key));
        set.arg(names.join(&SEPARATOR.to_string()));
        set.arg("PX").arg(milliseconds(kept)).arg("GET");
        Ok(parse(self.store.command(&set).await?))
    }

    /// The queues in which the job with this key may be; none if there is no entry.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn get(
        &self,
        namespace: &Namespace,
        key: &str,
    ) -> Result<Vec<QueueName>, StoreError> {
        let get = Cmd::get(keys::directory(namespace.as_str(), key));
        Ok(parse(self.store.command(&get).await?))
    }

    /// Removes the entry of a key after the time `kept`.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn expire(
        &self,
        namespace: &Namespace,
        key: &str,
        kept: Duration,
    ) -> Result<(), StoreError> {
        let key = keys::directory(namespace.as_str(), key);
        let expire = Cmd::pexpire(key, milliseconds(kept));
        let _: bool = self.store.command(&expire).await?;
        Ok(())
    }
}

impl Store {
    /// The directory of this deployment.
    pub fn directory(&self) -> JobDirectory {
        let store = self.clone();
        JobDirectory { store }
    }
}

fn milliseconds(kept: Duration) -> i64 {
    i64::try_from(kept.as_millis().max(1)).unwrap_or(i64::MAX)
}

/// The queues of an entry. Names that are none are left out: an entry proves nothing.
fn parse(entry: Option<Vec<u8>>) -> Vec<QueueName> {
    let entry = entry.unwrap_or_default();
    let entry = String::from_utf8_lossy(&entry);
    let names = entry.split(SEPARATOR);
    names.filter_map(|name| name.try_into().ok()).collect()
}
