//! Why a deployment cannot be used.

use crate::error::{StoreError, Unavailable};

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The settings are invalid.
    #[error("{0}")]
    BadConfig(String),
    /// The server does not meet the requirements. Retrying does not help.
    #[error(transparent)]
    Refused(#[from] ServerCheckError),
    /// The server does not reply, is loading its data, or is a replica. Retrying may help.
    #[error(transparent)]
    Unavailable(StoreError),
}

/// A rejected login is not retried: it would be rejected again.
impl From<StoreError> for ConnectError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable {
                reason: Unavailable::Forbidden,
                detail,
            } => Self::Refused(ServerCheckError::Forbidden(detail)),
            error => Self::Unavailable(error),
        }
    }
}

/// Why a server cannot be used. The text contains the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ServerCheckError {
    /// The server is older than Redis 7.0.
    #[error("redis {0} is too old: tidegate needs redis 7.0 or later, or valkey")]
    TooOld(String),
    /// The server is a node of a cluster, and has only a part of the keys.
    #[error("redis is a node of a cluster: configure it with the key cluster instead of url")]
    NodeOfCluster,
    /// The append-only file is off: a restart of the server loses jobs.
    #[error(
        "redis has no append-only file, so a restart would lose jobs: set `appendonly yes`, or allow it with `unsafe_server = \"warn\"`"
    )]
    NoAppendOnlyFile,
    /// The server may evict jobs when it reaches `maxmemory`.
    #[error(
        "redis may evict jobs (maxmemory-policy {0}): set `maxmemory-policy noeviction`, or allow it with `unsafe_server = \"warn\"`"
    )]
    Evicts(String),
    /// Publishes wait for the disk, and the server cannot confirm writes to disk.
    #[error(
        "redis cannot confirm writes to disk ({0}): durability fsync needs `WAITAOF` (redis 7.2 or later, or valkey) and `appendonly yes`"
    )]
    CannotTellFsync(String),
    /// The deployment was created with another layout.
    #[error(
        "redis has another layout ({found}; this daemon is configured for {ours}): use the settings with which the deployment was created, or another deployment; data without an id need one, see CHANGELOG.md"
    )]
    OtherLayout {
        /// The layout in Redis.
        found: String,
        /// The layout of this daemon.
        ours: String,
    },
    /// The user or its password is wrong, or the user lacks a right.
    #[error(
        "redis denies access ({0}): check username and password, and that the user has the rights in deploy/redis/users.acl"
    )]
    Forbidden(String),
}
