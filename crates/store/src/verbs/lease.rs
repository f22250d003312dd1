use crate::error::StoreError;
use crate::script::{LazyScript, script};
use crate::store::Store;

static LEASE_ACQUIRE: LazyScript = script!("lease_acquire");
static LEASE_RELEASE: LazyScript = script!("lease_release");

/// Whether the caller leads a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum LeaseOutcome {
    /// The caller leads it, until it releases the lock, or until it is not on the roster any more and another pump
    /// takes the lock.
    Ours,
    /// Another live pump leads it.
    NotOurs,
}

impl Store {
    /// Takes the lock of a bucket, unless one of the `living` instances, those on the roster, holds it.
    ///
    /// # Errors
    /// Redis is unavailable; the caller may lead the bucket or not.
    pub async fn lease_acquire(
        &self,
        bucket: u16,
        token: &str,
        living: &[String],
    ) -> Result<LeaseOutcome, StoreError> {
        let call = self.call_on_lock(&LEASE_ACQUIRE, bucket, token);
        let call = call.arg(self.keys(bucket).alarm()).arg(living);
        let reply = call.send().await?;
        match reply.token() {
            "ok" => Ok(LeaseOutcome::Ours),
            "held" => Ok(LeaseOutcome::NotOurs),
            _ => reply.unknown(),
        }
    }

    /// Frees the lock of a bucket if this token holds it.
    ///
    /// # Errors
    /// Redis is unavailable. Unless the call was executed, the token holds the lock until the call is repeated, or
    /// until its instance is not on the roster any more.
    pub async fn lease_release(&self, bucket: u16, token: &str) -> Result<(), StoreError> {
        let reply = self
            .call_on_lock(&LEASE_RELEASE, bucket, token)
            .send()
            .await?;
        match reply.token() {
            "ok" | "lost" => Ok(()),
            _ => reply.unknown(),
        }
    }
}
