//! A private Redis Cluster.

use std::fs;
use std::path::Path;

use tidegate_local_redis::{LocalRedisOptions, RedisCluster, RedisServer, ServerBinary};

const PRIMARIES: usize = 3;

/// Starts three primaries with `replicas` replicas each.
pub(crate) fn start(binary: ServerBinary, replicas: usize) -> Result<RedisCluster, String> {
    println!(
        "starting {PRIMARIES} primaries and {} replicas of {binary}",
        PRIMARIES * replicas
    );
    let started = RedisCluster::start(&LocalRedisOptions::new(binary), PRIMARIES, replicas);
    started.map_err(|error| error.to_string())
}

/// Returns the daemons' flags. There is no flag for a list of nodes, so they are written to a
/// settings file.
pub(crate) fn arguments(cluster: &RedisCluster, folder: &Path) -> Result<Vec<String>, String> {
    let path = folder.join("cluster.toml");
    let text = format!("[pool.default]\ncluster = {:?}\n", urls(cluster));
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(vec!["--config".to_owned(), path.display().to_string()])
}

/// Describes the primaries.
pub(super) fn shown(cluster: &RedisCluster) -> String {
    format!("cluster of {}", urls(cluster).join(" "))
}

fn urls(cluster: &RedisCluster) -> Vec<String> {
    let primaries = cluster.servers.iter().take(PRIMARIES);
    primaries.map(RedisServer::url).collect()
}
