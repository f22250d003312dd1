//! Checks whether a server is safe for jobs.

use std::collections::HashMap;

use tidegate_core::keys;

use crate::config::{StoreConfig, UnsafeServer};
use crate::connect_error::{ConnectError, ServerCheckError};
use crate::link::server::TimedConnection;
use crate::permissions;
use crate::server_info::ServerInfo;
use crate::stamp;

/// Redis 7.0 introduced script flags. With them consume and ack work at `maxmemory`.
const VERSION_MIN: (u32, u32) = (7, 0);

/// Rejects a server that does not meet the requirements, or denies a right. Settings that only cost memory are logged
/// as warnings.
pub(crate) async fn check(
    session: &TimedConnection<'_>,
    config: &StoreConfig,
) -> Result<(), ConnectError> {
    let info = ServerInfo::read(session, &[]).await?;
    info.check_master()?;
    let version = info.get("redis_version").unwrap_or("unknown");
    if parse_version(version).is_none_or(|found| found < VERSION_MIN) {
        return Err(ServerCheckError::TooOld(version.to_owned()).into());
    }
    let is_node = info.get("cluster_enabled") == Some("1");
    if is_node && config.cluster.is_empty() {
        return Err(ServerCheckError::NodeOfCluster.into());
    }
    for risk in risks(&info) {
        match config.unsafe_server {
            UnsafeServer::Refuse => return Err(risk.into()),
            UnsafeServer::Warn => tracing::warn!("jobs may be lost: {risk}"),
        }
    }
    warn_of_untuned_hashes(session, config).await;
    permissions::check(session, config).await
}

/// Checks a server that became a primary of the cluster while the daemon runs. Problems are logged as warnings: the
/// server is used nevertheless, because its slots are on no other server.
pub(crate) async fn check_primary(session: &TimedConnection<'_>, config: &StoreConfig) {
    if let Err(problem) = check(session, config).await {
        tracing::warn!("the new primary does not meet the requirements: {problem}");
    }
}

/// The same for a server that became the master instead of another one. Also checks the layout.
pub(crate) async fn check_successor(session: &TimedConnection<'_>, config: &StoreConfig) {
    check_primary(session, config).await;
    let get = redis::Cmd::get(keys::LAYOUT);
    let found = session.command::<Option<String>>(&get).await;
    if let Ok(found) = found
        && found
            .as_deref()
            .and_then(|stamp| stamp::id_of(stamp, config))
            .is_none()
    {
        tracing::error!(
            ?found,
            "the new master has another layout, or no data of a deployment: check which server was promoted"
        );
    }
}

/// The settings of this server that may lose jobs.
pub(crate) fn risks(info: &ServerInfo) -> impl Iterator<Item = ServerCheckError> {
    let unsafe_value = |key, safe| info.get(key).filter(|value| *value != safe);
    let no_file = unsafe_value("aof_enabled", "1").filter(|_| !info.is_loading());
    let no_file = no_file.map(|_| ServerCheckError::NoAppendOnlyFile);
    let policy = unsafe_value("maxmemory_policy", "noeviction");
    let evicts = policy.map(|policy| ServerCheckError::Evicts(policy.to_owned()));
    no_file.into_iter().chain(evicts)
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Without these settings everything works, but records take more memory. A server that denies `CONFIG` is not checked.
async fn warn_of_untuned_hashes(session: &TimedConnection<'_>, config: &StoreConfig) {
    let mut get = redis::cmd("CONFIG");
    get.arg("GET").arg("hash-max-listpack-*");
    let Ok(settings) = session.command::<HashMap<String, usize>>(&get).await else {
        return;
    };
    let wanted = config.inline_limit_bytes + tidegate_core::codec::HEADER_BYTES;
    let setting = |name: &str| settings.get(name).copied().unwrap_or(usize::MAX);
    if setting("hash-max-listpack-value") < wanted || setting("hash-max-listpack-entries") < 100 {
        tracing::warn!(
            "records take more memory than necessary in redis: set `hash-max-listpack-value` to \
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
