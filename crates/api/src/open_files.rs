//! Connections of clients are limited so that files are left for everything else: the admin port, Redis, logs.
//!
//! ```text
//!  connections_max, and a fiftieth that is refused │ admin port │ 128 for each Redis │ 64
//! ```

use tidegate_service::{ListenLimits, open_files_max, raise_open_files};

use crate::config::Config;

/// Connections to the Redis of a pool: up to 3 for each primary, up to 4 for each durability, sentinels, and
/// those that are made before old ones are closed. On a cluster this suffices for some 16 primaries.
const OF_A_REDIS: u64 = 128;
/// The runtime, logs, signals, settings that are read, the resolver.
const OTHERS: u64 = 64;

/// Fewer files than the daemon can work with.
#[derive(Debug, thiserror::Error)]
#[error(
    "the limit of open files is {files_max}, which leaves none for clients: set it to {needed} (LimitNOFILE, ulimit -Hn) for connections.connections_max = {connections_max}"
)]
pub struct TooFewFiles {
    files_max: u64,
    needed: u64,
    connections_max: usize,
}

/// Files that connections of clients cannot use.
fn reserve(config: &Config) -> u64 {
    let redis = config.pool.len() + usize::from(config.admin_store.is_some());
    ListenLimits::default().open_files() + OF_A_REDIS * redis as u64 + OTHERS
}

/// Files that the daemon needs for all the connections that it may have.
fn needed(config: &Config) -> u64 {
    config.connections.open_files() + reserve(config)
}

/// Raises the limit of open files as far as the system permits. Returns the limits of the public listener: if
/// there are too few files, with fewer connections than configured.
///
/// # Errors
/// There are too few files for a single client.
pub(crate) fn limits(config: &Config) -> Result<ListenLimits, TooFewFiles> {
    if let Err(error) = raise_open_files() {
        tracing::warn!(%error, "failed to raise the limit of open files");
    }
    let files_max = open_files_max().unwrap_or(u64::MAX);
    let limits = within(config, files_max)?;
    if limits.connections_max < config.connections.connections_max {
        tracing::warn!(
            files_max,
            connections_max = limits.connections_max,
            configured = config.connections.connections_max,
            "connections_max is lowered: the limit of open files is too low; set it (LimitNOFILE, ulimit -Hn) to {}",
            needed(config)
        );
    }
    Ok(limits)
}

fn within(config: &Config, files_max: u64) -> Result<ListenLimits, TooFewFiles> {
    let for_clients = files_max.saturating_sub(reserve(config));
    config
        .connections
        .within(for_clients)
        .ok_or_else(|| TooFewFiles {
            files_max,
            needed: needed(config),
            connections_max: config.connections.connections_max,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = include_str!("../../../deploy/systemd/tidegate-api.service");

    #[test]
    fn the_unit_of_systemd_allows_as_many_files_as_the_defaults_need() {
        let mut lines = UNIT.lines();
        let limit = lines.find_map(|line| line.strip_prefix("LimitNOFILE="));
        let files_max: u64 = limit.unwrap().parse().unwrap();
        let config = Config::defaults();
        assert!(files_max >= needed(&config), "{}", needed(&config));
        let limits = within(&config, files_max).unwrap();
        assert_eq!(limits.connections_max, config.connections.connections_max);
    }

    #[test]
    fn what_is_kept_for_others_is_not_given_to_clients() {
        let mut config = Config::defaults();
        let pool = config.pool["default"].clone();
        let alone = within(&config, 1024).unwrap();
        assert!(alone.open_files() + reserve(&config) <= 1024);
        config.pool.insert("more".to_owned(), pool.clone());
        config.admin_store = Some(pool);
        let with_more = within(&config, 1024).unwrap();
        let given_up = alone.connections_max - with_more.connections_max;
        assert_eq!(given_up as u64, 2 * OF_A_REDIS);
        let refused = within(&config, 600).unwrap_err().to_string();
        assert!(refused.contains("limit of open files is 600"), "{refused}");
        assert!(refused.contains(&needed(&config).to_string()), "{refused}");
    }
}
