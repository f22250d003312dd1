//! Figures of Redis servers, from `INFO`.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::keys;

use crate::connect_error::ServerCheckError;
use crate::server_check::risks;
use crate::server_info::ServerInfo;
use crate::stamp;
use crate::store::Store;

/// Sums of the figures of all Redis servers that have keys. A figure that a server does not report counts as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerFigures {
    /// `maxmemory`, in bytes; 0 = at least one server has no limit.
    pub max_mem_bytes: u64,
    /// Used memory, in bytes.
    pub used_mem_bytes: u64,
    /// Client connections.
    pub connections: u64,
    /// Client connections in a blocking command.
    pub blocking_connections: u64,
    /// Keys in the configured database.
    pub total_keys: u64,
    /// Keys with a time to live in the configured database.
    pub total_ttl_keys: u64,
    /// Servers without an append-only file: if one restarts, it loses jobs.
    pub without_append_only_file: u64,
    /// Servers that may evict jobs: their `maxmemory-policy` is not `noeviction`.
    pub evicting: u64,
    /// Whether the stamp of the deployment is missing, or is another one than this process has found at its start: Redis
    /// was emptied, or has the data of another deployment. `None` if its server does not reply.
    pub has_other_stamp: Option<bool>,
}

impl Store {
    /// Reads the figures of every server. Servers that do not reply within `limit` are left out; `None` if none does.
    pub async fn server_figures(&self, limit: Duration) -> Option<ServerFigures> {
        let servers = self.inner.link.servers();
        let figures = servers.into_iter().map(|server| async move {
            let database = server.client.get_connection_info().redis_settings().db();
            let session = server.session(limit);
            let answer = ServerInfo::read(&session, &[]).await.ok()?;
            Some(read(&answer, database))
        });
        let (figures, has_other_stamp) = tokio::join!(join_all(figures), self.has_other_stamp());
        let figures: Vec<_> = figures.into_iter().flatten().collect();
        (!figures.is_empty()).then(|| ServerFigures {
            has_other_stamp,
            ..sum(figures)
        })
    }

    /// Whether the stamp of the deployment is missing, or is another one than this process has found at its start:
    /// Redis was emptied or replaced. `None` if its server does not reply.
    pub async fn has_other_stamp(&self) -> Option<bool> {
        let get = redis::Cmd::get(keys::LAYOUT);
        let found: Option<String> = self.command(&get).await.ok()?;
        let inner = &self.inner;
        let id = found
            .as_deref()
            .and_then(|stamp| stamp::id_of(stamp, &inner.config));
        Some(id.is_none() || id != inner.deployment_id.get().map(String::as_str))
    }
}

fn sum(figures: Vec<ServerFigures>) -> ServerFigures {
    let has_limit = figures.iter().all(|figures| figures.max_mem_bytes > 0);
    let mut sum = ServerFigures::default();
    for figures in figures {
        sum.max_mem_bytes += figures.max_mem_bytes;
        sum.used_mem_bytes += figures.used_mem_bytes;
        sum.connections += figures.connections;
        sum.blocking_connections += figures.blocking_connections;
        sum.total_keys += figures.total_keys;
        sum.total_ttl_keys += figures.total_ttl_keys;
        sum.without_append_only_file += figures.without_append_only_file;
        sum.evicting += figures.evicting;
    }
    // With one unlimited server the sum of the other limits is meaningless.
    if !has_limit {
        sum.max_mem_bytes = 0;
    }
    sum
}

fn read(info: &ServerInfo, database: i64) -> ServerFigures {
    let number = |key: &str| {
        let value = info.get(key).and_then(|value| value.parse().ok());
        value.unwrap_or_default()
    };
    // `keys=5,expires=1,avg_ttl=0`; there is no line if the database is empty.
    let keyspace = info.get(&format!("db{database}"));
    let of_keyspace = |key: &str| {
        let mut pairs = keyspace.into_iter().flat_map(|line| line.split(','));
        let value = pairs.find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')?.parse().ok());
        value.unwrap_or_default()
    };
    let has_risk = |is_it: fn(&ServerCheckError) -> bool| risks(info).any(|risk| is_it(&risk));
    ServerFigures {
        max_mem_bytes: number("maxmemory"),
        used_mem_bytes: number("used_memory"),
        connections: number("connected_clients"),
        blocking_connections: number("blocked_clients"),
        total_keys: of_keyspace("keys"),
        total_ttl_keys: of_keyspace("expires"),
        without_append_only_file: has_risk(|it| matches!(it, ServerCheckError::NoAppendOnlyFile))
            .into(),
        evicting: has_risk(|it| matches!(it, ServerCheckError::Evicts(_))).into(),
        has_other_stamp: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_figures_are_those_of_the_configured_database() {
        let answer = [
            "maxmemory:1024",
            "used_memory:512",
            "connected_clients:3",
            "blocked_clients:1",
            "aof_enabled:0",
            "maxmemory_policy:allkeys-lru",
            "db1:keys=50,expires=10,avg_ttl=0",
            "db11:keys=6,expires=2,avg_ttl=0,subexpiry=0",
        ]
        .join("\r\n");
        let figures = read(&ServerInfo::parse(&answer), 11);
        let expected = ServerFigures {
            max_mem_bytes: 1024,
            used_mem_bytes: 512,
            connections: 3,
            blocking_connections: 1,
            total_keys: 6,
            total_ttl_keys: 2,
            without_append_only_file: 1,
            evicting: 1,
            has_other_stamp: None,
        };
        assert_eq!(figures, expected);
        assert_eq!(read(&ServerInfo::default(), 0), ServerFigures::default());
    }

    #[test]
    fn a_server_that_loads_its_append_only_file_has_one() {
        let loading = ServerInfo::parse("loading:1\r\naof_enabled:0\r\n");
        assert_eq!(read(&loading, 0).without_append_only_file, 0);
    }

    #[test]
    fn the_memory_limit_is_0_unless_every_server_has_one() {
        let server = |max_mem_bytes| ServerFigures {
            max_mem_bytes,
            total_keys: 2,
            ..ServerFigures::default()
        };
        let limited = sum(vec![server(10), server(20)]);
        assert_eq!((limited.max_mem_bytes, limited.total_keys), (30, 4));
        assert_eq!(sum(vec![server(10), server(0)]).max_mem_bytes, 0);
    }
}
