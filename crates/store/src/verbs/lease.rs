use crate::script::{LazyScript, script};
use crate::{Store, StoreError};

static LEASE_ACQUIRE: LazyScript = script!("lease_acquire");
static LEASE_RELEASE: LazyScript = script!("lease_release");

/// Who leads a bucket after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Leased {
    /// The caller does, until it releases the bucket, or is not on the roster any more and another pump
    /// takes over.
    Ours,
    /// Another living pump does.
    NotOurs,
}

impl Store {
    /// Takes the lead of a bucket, unless it is led by one of the `living` instances, as the roster
    /// tells them.
    ///
    /// # Errors
    /// Redis is unavailable; whether the token leads the bucket is then not known.
    pub async fn lease_acquire(
        &self,
        bucket: u16,
        token: &str,
        living: &[String],
    ) -> Result<Leased, StoreError> {
        let call = self.call_on_lock(&LEASE_ACQUIRE, bucket, token).arg(living);
        let reply = call.send().await?;
        match reply.token() {
            "ok" => Ok(Leased::Ours),
            "held" => Ok(Leased::NotOurs),
            _ => reply.unknown(),
        }
    }

    /// Hands the lead of a bucket back, if this token has it.
    ///
    /// # Errors
    /// Redis is unavailable; the token then leads the bucket until the call is repeated, or its instance
    /// is not on the roster any more.
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
