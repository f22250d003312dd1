//! Errors of calls to Redis.

use std::fmt;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidegate_core::codec::InvalidRecord;
use tidegate_core::{InvalidJob, KeyPlacement, LaneNumbers};

/// The kind of [`NamespaceFull`] whose limit is not exact.
pub(crate) const QUEUES: &str = "queues";

/// The kind that is counted in the daemons.
const JOBS: &str = "jobs";

/// A namespace has as much as it may of one kind. Nothing was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceFull {
    /// The kind, as a field of [`tidegate_core::NamespaceLimits`].
    pub kind: &'static str,
    /// The limit.
    pub max: u64,
}

impl NamespaceFull {
    /// The namespace has this many unfinished jobs.
    pub const fn of_jobs(max: u64) -> Self {
        Self { kind: JOBS, max }
    }
}

impl fmt::Display for NamespaceFull {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, max } = self;
        match *kind {
            QUEUES => write!(
                out,
                "the namespace has as many queues as its limit `queues` allows, about {max}; a queue without jobs is \
                 forgotten within two minutes"
            ),
            JOBS => write!(
                out,
                "the namespace would have more than {max} unfinished jobs, its limit `jobs`; end or delete some, or \
                 raise the limit"
            ),
            _ => write!(
                out,
                "the namespace has {max} {kind}, the maximum (its limit `{kind}`); {} first",
                match *kind {
                    "policies" => "replace one by {}",
                    _ => "delete one",
                }
            ),
        }
    }
}

/// A call that failed. Whether Redis executed it is unknown if the reason is [`Unavailable::Unreachable`].
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis cannot serve the call now. A later call may succeed.
    #[error("redis is unavailable ({reason}): {detail}")]
    Unavailable {
        /// Why Redis cannot serve the call.
        reason: Unavailable,
        /// The error of the connection or of the server.
        detail: String,
    },
    /// Stored data, or a reply, is damaged or has an unexpected form.
    #[error("unexpected data in redis: {0}")]
    Corrupt(String),
    /// The payload of the job is in the cold tier, which cannot be read now. A later call may succeed.
    #[error("the payload is in the cold tier and cannot be read now: {0}")]
    ColdUnavailable(String),
    /// The namespace has as much as it may. Nothing was stored.
    #[error("{0}")]
    NamespaceFull(NamespaceFull),
    /// The job cannot be stored. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidJob),
    /// Keys of the queue may have other lanes now: the lane was asked with this placement. Nothing was changed.
    #[error("the lanes of the queue have changed: the placement of its keys is {0}")]
    PlacementStale(KeyPlacement),
    /// Jobs with keys may be placed by too many former numbers of lanes, of which these are the known ones. Nothing was
    /// changed.
    #[error("jobs with keys are placed by too many numbers of lanes: {0}")]
    KeysUnsettled(LaneNumbers),
    /// A failover has lost rows of the table of lanes that the caller has read. Nothing was changed.
    #[error("redis has lost the last changes of the lane table")]
    LanesLost,
}

/// Why Redis cannot serve a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// No connection, or no reply in time.
    #[error("unreachable")]
    Unreachable,
    /// The server is loading its data, running a long script or changing roles, or the slot of the key is moving or has
    /// no primary. The call was not executed.
    #[error("not ready")]
    NotReady,
    /// The server takes no writes, since it is a replica (`READONLY`, `MASTERDOWN`): another server is the master.
    #[error("refuses writes: it is a replica")]
    IsReplica,
    /// The server takes no writes, since it cannot write to its disk (`MISCONF`).
    #[error("refuses writes: it cannot write to its disk")]
    DiskFailed,
    /// The server takes no writes, since fewer replicas than `min-replicas-to-write` are connected (`NOREPLICAS`).
    #[error("refuses writes: too few replicas are connected")]
    TooFewReplicas,
    /// The server has reached `maxmemory` (`OOM`).
    #[error("out of memory")]
    OutOfMemory,
    /// Other uploads to the server took too long. Nothing was sent.
    #[error("too many uploads")]
    TooManyUploads,
    /// User or password are wrong, or the user lacks a right.
    #[error("forbidden")]
    Forbidden,
}

impl Unavailable {
    /// Whether the server refuses every write, without regard to its size.
    pub const fn refuses_writes(self) -> bool {
        matches!(
            self,
            Self::IsReplica | Self::DiskFailed | Self::TooFewReplicas
        )
    }
}

impl StoreError {
    /// The error of a call without a reply within `after`. Whether Redis executed the call is unknown.
    pub fn timed_out(after: Duration) -> Self {
        Self::unreachable(format!("no answer within {after:?}"))
    }

    pub(crate) fn unreachable(detail: impl Into<String>) -> Self {
        Self::unavailable(Unavailable::Unreachable, detail)
    }

    pub(crate) fn not_ready(detail: impl Into<String>) -> Self {
        Self::unavailable(Unavailable::NotReady, detail)
    }

    /// The error of an upload that waited this long for others. Nothing was sent.
    pub(crate) fn uploads_waiting(waited: Duration) -> Self {
        let detail = format!("other uploads took {waited:?}; nothing was sent, retry later");
        Self::unavailable(Unavailable::TooManyUploads, detail)
    }

    pub(crate) fn unavailable(reason: Unavailable, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self::Unavailable { reason, detail }
    }

    /// Why Redis cannot serve the call, if that is the error.
    pub const fn reason(&self) -> Option<Unavailable> {
        match self {
            Self::Unavailable { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    /// Whether the server is a replica, so that another server is the master.
    pub(crate) fn is_from_replica(&self) -> bool {
        self.reason() == Some(Unavailable::IsReplica)
    }

    /// Whether there was no reply, so that the outcome of the call is unknown.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.reason() == Some(Unavailable::Unreachable)
    }

    /// Whether the call was not sent because other uploads took too long.
    pub fn is_upload_limit(&self) -> bool {
        self.reason() == Some(Unavailable::TooManyUploads)
    }

    /// Whether the server has reached `maxmemory`.
    pub fn is_out_of_memory(&self) -> bool {
        self.reason() == Some(Unavailable::OutOfMemory)
    }

    /// Whether Redis certainly did not execute the call. A call of several steps may have executed some of them before.
    pub const fn is_refusal(&self) -> bool {
        match self {
            // A missing right may end a script in the middle.
            Self::Unavailable { reason, .. } => {
                !matches!(reason, Unavailable::Unreachable | Unavailable::Forbidden)
            }
            Self::Invalid(_)
            | Self::NamespaceFull(_)
            | Self::PlacementStale(_)
            | Self::KeysUnsettled(_)
            | Self::LanesLost => true,
            Self::Corrupt(_) | Self::ColdUnavailable(_) => false,
        }
    }

    /// Whether the server refused the call before it executed any of it, since it takes no writes or rejects the login.
    pub fn is_rejected_at_once(&self) -> bool {
        match self {
            // The first write of a script is refused.
            Self::Unavailable { reason, .. } if reason.refuses_writes() => true,
            // A missing right that a script meets may be that for a later write.
            Self::Unavailable {
                reason: Unavailable::Forbidden,
                detail,
            } => !detail.contains("script"),
            _ => false,
        }
    }

    /// Whether the server may have been restarted or replaced by another one.
    pub(crate) const fn may_be_a_restart(&self) -> bool {
        use Unavailable::{NotReady, Unreachable};
        match self.reason() {
            Some(Unreachable | NotReady) => true,
            Some(reason) => reason.refuses_writes(),
            None => false,
        }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt(what.into())
    }
}

impl From<InvalidRecord> for StoreError {
    fn from(bad: InvalidRecord) -> Self {
        Self::Corrupt(bad.to_string())
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        let reason = match error.kind() {
            ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => {
                Unavailable::IsReplica
            }
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::TryAgain
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::ClusterDown,
            ) => Unavailable::NotReady,
            ErrorKind::Server(ServerErrorKind::NoPerm) | ErrorKind::AuthenticationFailed => {
                Unavailable::Forbidden
            }
            ErrorKind::Server(_) | ErrorKind::Extension => match error.code() {
                Some("OOM") => Unavailable::OutOfMemory,
                Some("MISCONF") => Unavailable::DiskFailed,
                Some("NOREPLICAS") => Unavailable::TooFewReplicas,
                Some("BUSY") => Unavailable::NotReady,
                Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Unavailable::Forbidden,
                _ => return Self::Corrupt(error.to_string()),
            },
            ErrorKind::UnexpectedReturnType => return Self::Corrupt(error.to_string()),
            _ => Unavailable::Unreachable,
        };
        let detail = match error.code() {
            // The bytes that were found mean nothing to a reader.
            None if error.kind() == ErrorKind::Parse => {
                "the answer is not in the protocol of redis: no redis listens at this address, or only with TLS".to_owned()
            }
            Some("NOREPLICAS") => format!(
                "too few replicas are connected (min-replicas-to-write): connect replicas, or lower the setting: {error}"
            ),
            _ => error.to_string(),
        };
        Self::Unavailable { reason, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_that_a_script_lacks_is_no_rejection_at_once() {
        for (reason, detail, is_rejected) in [
            (Unavailable::IsReplica, "READONLY: You can't write", true),
            (
                Unavailable::Forbidden,
                "NOAUTH: Authentication required.",
                true,
            ),
            (
                Unavailable::Forbidden,
                "NOPERM: no permissions to run 'evalsha'",
                true,
            ),
            (
                Unavailable::Forbidden,
                "NOPERM: ACL failure in script",
                false,
            ),
            (Unavailable::Unreachable, "broken pipe", false),
        ] {
            let error = StoreError::unavailable(reason, detail);
            assert_eq!(error.is_rejected_at_once(), is_rejected, "{detail}");
        }
    }
}
