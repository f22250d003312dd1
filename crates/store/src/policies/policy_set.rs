//! Setting the policy of a queue.

use tidegate_core::{QueueKey, QueuePolicy, keys};

use super::revision::PolicyRevision;
use super::table::{PAGE, Policies};
use crate::error::StoreError;
use crate::script::{LazyScript, script};

static POLICY_SET: LazyScript = script!("policy_set");

/// The outcome of setting a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PolicySetOutcome {
    /// The policy is set. Its revision is 0 if it equals the defaults, which are not stored.
    Done(PolicyRevision),
    /// The stored policy has another revision than the expected one; `None` if it cannot be read. Nothing changed.
    VersionMismatch(Option<PolicyRevision>),
}

impl Policies {
    /// Sets the policy of a queue, or removes it if it equals the defaults. With `expected`, only if that is the
    /// revision of the stored policy. A queue need not exist, and is not created.
    ///
    /// # Errors
    /// - [`StoreError::Corrupt`]: the policy is invalid; nothing was sent. Callers check it before.
    /// - Redis is unavailable; the change may be executed nevertheless, even later.
    pub async fn set(
        &self,
        queue: &QueueKey,
        policy: &QueuePolicy,
        expected: Option<PolicyRevision>,
    ) -> Result<PolicySetOutcome, StoreError> {
        let invalid = |error| StoreError::corrupt(format!("invalid policy of {queue}: {error}"));
        policy.check().map_err(invalid)?;
        let text = match *policy == QueuePolicy::default() {
            true => String::new(),
            false => policy.to_string(),
        };
        let call = self.store.call(&POLICY_SET, keys::POLICIES.to_owned());
        let call = call.arg(queue.to_string());
        let call = call.arg(expected.map_or_else(String::new, |revision| revision.to_string()));
        let tag = format!("{:08x}", rand::random::<u32>());
        let mut reply = call.arg(tag).arg(text).arg(PAGE).send().await?;
        let revision = String::from_utf8_lossy(&reply.bytes()?).into_owned();
        let revision = revision.parse::<PolicyRevision>();
        match reply.token() {
            "ok" => {
                let revision = revision.map_err(|error| StoreError::corrupt(error.to_string()))?;
                Ok(PolicySetOutcome::Done(revision))
            }
            "mismatch" => Ok(PolicySetOutcome::VersionMismatch(revision.ok())),
            _ => reply.unknown(),
        }
    }
}
