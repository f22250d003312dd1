use redis::Cmd;

use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static ROSTER: LazyScript = script!("roster");

/// The live pumps of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// Whether the caller joined: it is new, or its membership had expired.
    pub is_new: bool,
    /// The live instances, in the order of their names.
    pub instances: Vec<String>,
    /// Time until the next membership expires unless it is renewed, in ms.
    pub next_end_in_ms: u64,
}

impl Store {
    /// Adds `instance` to the roster of a server for `ttl_ms` from now, or renews its membership, and returns the
    /// roster. `bucket` is the bucket that stores the roster ([`crate::server_buckets::ServerBuckets`]). Subscribers to
    /// the alarms of the bucket get a message when an instance joins, leaves or expires.
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

    /// Removes `instance` from the roster.
    ///
    /// # Errors
    /// Redis is unavailable; the membership expires.
    pub async fn roster_leave(&self, bucket: u16, instance: &str) -> Result<(), StoreError> {
        self.roster(bucket, instance, 0).await.map(drop)
    }

    /// When the membership of a pump on the roster of the server of a bucket ends, in ms since 1970; `None` if it is
    /// not on the roster.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub(crate) async fn membership_end_ms(
        &self,
        bucket: u16,
        instance: &str,
    ) -> Result<Option<u64>, StoreError> {
        let servers = self.buckets_by_server().into_iter();
        let mut servers = servers.filter(|server| server.buckets.contains(&bucket));
        let roster = servers.next().map_or(bucket, |server| server.roster);
        let membership = Cmd::zscore(self.keys(roster).roster(), instance);
        let end_ms: Option<f64> = self.command(&membership).await?;
        Ok(end_ms.map(|end_ms| end_ms as u64))
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
