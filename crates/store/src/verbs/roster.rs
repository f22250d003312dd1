use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static ROSTER: LazyScript = script!("roster");

/// The pumps of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// Whether the caller was not on it before: it is new, or its membership had ended.
    pub is_new: bool,
    /// The live instances, by name.
    pub instances: Vec<String>,
    /// Time until the next membership ends unless it is prolonged, in ms.
    pub next_end_in_ms: u64,
}

impl Store {
    /// Keeps `instance` on the list of live pumps for `ttl_ms` from now on, and returns the list. `bucket` is the one that
    /// has the roster of a server ([`crate::ServerBuckets`]). All subscribers to alarms get a message when an instance joins
    /// or leaves.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn roster_join(
        &self,
        bucket: u16,
        instance: &str,
        ttl_ms: u64,
    ) -> Result<Roster, StoreError> {
        self.roster(bucket, instance, ttl_ms.max(1)).await
    }

    /// Takes `instance` off the list of live pumps.
    ///
    /// # Errors
    /// Redis is unavailable; the membership then ends by itself.
    pub async fn roster_leave(&self, bucket: u16, instance: &str) -> Result<(), StoreError> {
        self.roster(bucket, instance, 0).await.map(drop)
    }

    async fn roster(&self, bucket: u16, instance: &str, ttl_ms: u64) -> Result<Roster, StoreError> {
        let keys = self.keys(bucket);
        let call = self
            .call(&ROSTER, keys.roster())
            .of_pump()
            .arg(instance)
            .arg(ttl_ms)
            .arg(keys.alarm());
        let mut reply = call.send().await?.ok()?;
        Ok(Roster {
            is_new: reply.flag()?,
            next_end_in_ms: reply.count()?,
            instances: reply.texts()?,
        })
    }
}
