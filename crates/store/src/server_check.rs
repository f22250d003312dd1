//! Is this a server that jobs can be trusted to?

use std::collections::HashMap;

use tidegate_core::codec::LAYOUT_VERSION;
use tidegate_core::keys;

use crate::link::Session;
use crate::{ConnectError, Store, StoreConfig, StoreError, UnsafeServer, permissions};

/// The oldest Redis whose scripts have flags, which keep consume and ack working at `maxmemory`.
const VERSION_MIN: (u32, u32) = (7, 0);

/// Why a server is refused, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Older than Redis 7.0.
    #[error("redis {0} is too old: tidegate needs redis 7.0 or later, or valkey")]
    TooOld(String),
    /// A node of a cluster, which has some of the keys only.
    #[error("redis is a node of a cluster: name it with the key cluster, in the place of url")]
    NodeOfCluster,
    /// The append-only file is off: a restart of the server would lose jobs.
    #[error(
        "redis has no append-only file, so a restart would lose jobs: set `appendonly yes`, or allow it with `unsafe_server = \"warn\"`"
    )]
    NoAppendOnlyFile,
    /// The server may evict jobs when its memory is full.
    #[error(
        "redis may evict jobs (maxmemory-policy {0}): set `maxmemory-policy noeviction`, or allow it with `unsafe_server = \"warn\"`"
    )]
    Evicts(String),
    /// Publishes are to wait for the disk, and the server cannot tell when a write is there.
    #[error(
        "redis cannot tell what is on its disk ({0}): durability fsync needs `WAITAOF`, which redis has from 7.2 and valkey from its beginning, and `appendonly yes`"
    )]
    CannotTellFsync(String),
    /// The deployment is stamped with another layout.
    #[error(
        "redis holds another layout ({found}; this daemon is set to {ours}): use the setting that the deployment was made with, or another deployment"
    )]
    OtherLayout {
        /// The stamp in Redis.
        found: String,
        /// The stamp of this daemon.
        ours: String,
    },
    /// The user, its password, or one of its rights.
    #[error(
        "redis says no ({0}): check username and password, and that the user has the rights in deploy/redis/users.acl"
    )]
    Forbidden(String),
}

/// What a server tells about itself, by key.
pub(crate) type Info = HashMap<String, String>;

/// Refuses a server that cannot be used as it is; warns of what only costs.
pub(crate) async fn check(session: &Session<'_>, config: &StoreConfig) -> Result<(), ConnectError> {
    let info = info(session).await?;
    let version = info.get("redis_version").map_or("unknown", String::as_str);
    if parse_version(version).is_none_or(|found| found < VERSION_MIN) {
        return Err(Refusal::TooOld(version.to_owned()).into());
    }
    let is_node = info
        .get("cluster_enabled")
        .is_some_and(|value| value == "1");
    if is_node && config.cluster.is_empty() {
        return Err(Refusal::NodeOfCluster.into());
    }
    for risk in risks(&info) {
        match config.unsafe_server {
            UnsafeServer::Refuse => return Err(risk.into()),
            UnsafeServer::Warn => tracing::warn!("jobs may be lost: {risk}"),
        }
    }
    warn_of_untuned_hashes(session, config).await;
    Ok(())
}

/// A server that became a primary of the cluster while we run is used whatever it is, since refusing
/// would help nobody; but what is wrong with it is told.
pub(crate) async fn check_primary(session: &Session<'_>, config: &StoreConfig) {
    let checked = check(session, config).await;
    let checked = match checked {
        Ok(()) => permissions::check(session, config).await,
        failed => failed,
    };
    if let Err(problem) = checked {
        tracing::warn!("the new primary should not be one: {problem}");
    }
}

/// The same for a server that became the master in the place of another one.
pub(crate) async fn check_successor(session: &Session<'_>, config: &StoreConfig) {
    check_primary(session, config).await;
    let mut get = redis::cmd("GET");
    let found = session
        .command::<Option<String>>(get.arg(keys::LAYOUT))
        .await;
    if let Ok(found) = found
        && found != Some(layout(config))
    {
        tracing::error!(
            ?found,
            "the new master does not hold this deployment's data"
        );
    }
}

/// The stamp of a deployment.
pub(crate) fn layout(config: &StoreConfig) -> String {
    let StoreConfig {
        buckets, slot_ms, ..
    } = config;
    format!("layout={LAYOUT_VERSION} buckets={buckets} slot_ms={slot_ms}")
}

/// Stamps a fresh deployment with our layout; refuses one that has another.
pub(crate) async fn claim_layout(store: &Store) -> Result<(), ConnectError> {
    let ours = layout(&store.inner.config);
    let mut set = redis::cmd("SET");
    set.arg(keys::LAYOUT).arg(&ours).arg("NX").arg("GET");
    let found: Option<String> = store.command(&set).await?;
    match found {
        Some(found) if found != ours => Err(Refusal::OtherLayout { found, ours }.into()),
        _ => Ok(()),
    }
}

pub(crate) async fn info(session: &Session<'_>) -> Result<Info, StoreError> {
    let text: String = session.command(&redis::cmd("INFO")).await?;
    let pairs = text
        .lines()
        .filter_map(|line| line.trim_end().split_once(':'));
    Ok(pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect())
}

fn risks(info: &Info) -> Vec<Refusal> {
    let mut risks = Vec::new();
    if info
        .get("aof_enabled")
        .is_some_and(|enabled| enabled != "1")
    {
        risks.push(Refusal::NoAppendOnlyFile);
    }
    if let Some(policy) = info
        .get("maxmemory_policy")
        .filter(|policy| *policy != "noeviction")
    {
        risks.push(Refusal::Evicts(policy.clone()));
    }
    risks
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Everything works on an untuned server; records just take more memory. Servers that keep CONFIG
/// to themselves are not asked twice.
async fn warn_of_untuned_hashes(session: &Session<'_>, config: &StoreConfig) {
    let mut get = redis::cmd("CONFIG");
    get.arg("GET").arg("hash-max-listpack-*");
    let Ok(settings) = session.command::<HashMap<String, usize>>(&get).await else {
        return;
    };
    let wanted = config.inline_limit_bytes + tidegate_core::codec::HEADER_BYTES;
    let setting = |name: &str| settings.get(name).copied().unwrap_or(usize::MAX);
    if setting("hash-max-listpack-value") < wanted || setting("hash-max-listpack-entries") < 100 {
        tracing::warn!(
            "redis is not tuned for records and will use more memory: set `hash-max-listpack-value` to \
             at least {wanted} and `hash-max-listpack-entries` to at least 100, as in deploy/redis/redis.conf"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(parse_version("6.2.14").unwrap() < VERSION_MIN);
        assert!(parse_version("10.0.1").unwrap() > VERSION_MIN);
        assert_eq!(parse_version("7.0.15"), Some((7, 0)));
        assert_eq!(parse_version("unknown"), None);
    }
}
