use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static LEASE_ACQUIRE: LazyScript = script!("lease_acquire");
static LEASE_RENEW: LazyScript = script!("lease_renew");
static LEASE_RELEASE: LazyScript = script!("lease_release");

/// Who leads a bucket after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Leased {
    /// The caller does, until the lease ends.
    Ours,
    /// Another pump does, or nobody.
    NotOurs,
}

impl Leased {
    fn from_reply(reply: &Reply) -> Result<Self, StoreError> {
        match reply.token() {
            "ok" => Ok(Self::Ours),
            "held" | "lost" => Ok(Self::NotOurs),
            _ => reply.unknown(),
        }
    }
}

impl Store {
    /// Takes the lead of a bucket for `ttl_ms`, unless another token has it.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn lease_acquire(
        &self,
        bucket: u16,
        token: &str,
        ttl_ms: u64,
    ) -> Result<Leased, StoreError> {
        let call = self.call_on_lock(&LEASE_ACQUIRE, bucket, token).arg(ttl_ms);
        Leased::from_reply(&call.send().await?)
    }

    /// Keeps the lead of a bucket for `ttl_ms` from now on, if this token still has it.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn lease_renew(
        &self,
        bucket: u16,
        token: &str,
        ttl_ms: u64,
    ) -> Result<Leased, StoreError> {
        let call = self.call_on_lock(&LEASE_RENEW, bucket, token).arg(ttl_ms);
        Leased::from_reply(&call.send().await?)
    }

    /// Hands the lead of a bucket back, if this token has it.
    ///
    /// # Errors
    /// Redis is unavailable; the lease then ends by itself.
    pub async fn lease_release(&self, bucket: u16, token: &str) -> Result<(), StoreError> {
        let call = self.call_on_lock(&LEASE_RELEASE, bucket, token);
        Leased::from_reply(&call.send().await?).map(drop)
    }
}
