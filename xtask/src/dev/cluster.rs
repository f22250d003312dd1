//! A private Redis Cluster.

use std::fs;
use std::path::Path;

use tidegate_local_redis::{Options, RedisCluster, RedisServer, ServerBinary};

use super::start::say;

const PRIMARIES: usize = 3;

/// Three primaries, each with so many replicas.
pub(crate) fn start(binary: ServerBinary, replicas: usize) -> Result<RedisCluster, String> {
    say(&format!(
        "starting {PRIMARIES} primaries and {} replicas of {binary}",
        PRIMARIES * replicas
    ));
    let started = RedisCluster::start(&Options::new(binary), PRIMARIES, replicas);
    started.map_err(|error| error.to_string())
}

/// What daemons are started with. A list of nodes has no flag, so it goes through a file.
pub(crate) fn arguments(cluster: &RedisCluster, folder: &Path) -> Result<Vec<String>, String> {
    let path = folder.join("cluster.toml");
    let text = format!("[pool.default]\ncluster = {:?}\n", urls(cluster));
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(vec!["--config".to_owned(), path.display().to_string()])
}

/// The primaries, for a person.
pub(super) fn shown(cluster: &RedisCluster) -> String {
    format!("cluster of {}", urls(cluster).join(" "))
}

fn urls(cluster: &RedisCluster) -> Vec<String> {
    let primaries = cluster.servers.iter().take(PRIMARIES);
    primaries.map(RedisServer::url).collect()
}
