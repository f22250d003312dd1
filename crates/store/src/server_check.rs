//! Checks whether a server is safe for jobs.

use std::collections::HashMap;

use tidegate_core::codec::LAYOUT_VERSION;
use tidegate_core::keys;

use crate::config::{StoreConfig, UnsafeServer};
use crate::connect_error::{ConnectError, ServerCheckError};
use crate::error::StoreError;
use crate::link::server::TimedConnection;
use crate::permissions;

/// Redis 7.0 introduced script flags. With them consume and ack work at `maxmemory`.
const VERSION_MIN: (u32, u32) = (7, 0);

/// The fields of `INFO`.
pub(crate) type Info = HashMap<String, String>;

/// Rejects a server that does not meet the requirements, or denies a right. Settings that only cost memory are logged
/// as warnings.
pub(crate) async fn check(
    session: &TimedConnection<'_>,
    config: &StoreConfig,
) -> Result<(), ConnectError> {
    let info = info(session).await?;
    let version = info.get("redis_version").map_or("unknown", String::as_str);
    if parse_version(version).is_none_or(|found| found < VERSION_MIN) {
        return Err(ServerCheckError::TooOld(version.to_owned()).into());
    }
    let is_node = info.get("cluster_enabled").map(String::as_str) == Some("1");
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
    if let Ok(found) = session.command::<Option<String>>(&get).await
        && found != Some(layout(config))
    {
        tracing::error!(
            ?found,
            "the new master does not have this deployment's data: check which server the sentinels promoted"
        );
    }
}

/// The value of the layout key.
pub(crate) fn layout(config: &StoreConfig) -> String {
    let StoreConfig {
        buckets, slot_ms, ..
    } = config;
    format!("layout={LAYOUT_VERSION} buckets={buckets} slot_ms={slot_ms}")
}

pub(crate) async fn info(session: &TimedConnection<'_>) -> Result<Info, StoreError> {
    let text: String = session.command(&redis::cmd("INFO")).await?;
    let fields = text.lines().filter_map(|line| {
        let (key, value) = line.trim_end().split_once(':')?;
        Some((key.to_owned(), value.to_owned()))
    });
    Ok(fields.collect())
}

/// What may lose jobs on this server.
pub(crate) fn risks(info: &Info) -> impl Iterator<Item = ServerCheckError> {
    let unsafe_value = |key, safe| info.get(key).filter(|value| *value != safe);
    let no_file = unsafe_value("aof_enabled", "1").map(|_| ServerCheckError::NoAppendOnlyFile);
    let policy = unsafe_value("maxmemory_policy", "noeviction");
    let evicts = policy.cloned().map(ServerCheckError::Evicts);
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
