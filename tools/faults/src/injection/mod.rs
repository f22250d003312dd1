//! Fault injection. Each function injects a fault and returns its episodes.

mod cluster;
mod daemons;
mod endpoint;
mod host;
mod lanes;
mod memory;
mod network;
mod open_episode;
mod pools;
mod redis;
mod sentinels;
mod shards;
mod tenants;
mod tokens;

use crate::fault::{Class, PlannedFault};
use crate::history::Episode;
use crate::test_cluster::{RedisServers, TestCluster};
use crate::traffic::ClientState;

/// Injects a fault, and waits until it has ended.
pub(crate) async fn inject(
    test_cluster: &TestCluster,
    shared: &ClientState,
    fault: &PlannedFault,
) -> Vec<Episode> {
    match fault.class {
        Class::ApiKill => daemons::kill_api(test_cluster, fault).await,
        Class::ApiPause => daemons::pause_api(test_cluster, fault).await,
        Class::PumpKill => daemons::kill_pump(test_cluster, fault).await,
        Class::PumpPause => daemons::pause_pump(test_cluster, fault).await,
        Class::Upgrade => daemons::upgrade(test_cluster).await,
        Class::Clock => daemons::set_clocks(test_cluster, fault).await,
        Class::RedisKill => redis::kill(test_cluster, fault).await,
        Class::RedisLoading => redis::load_slowly(test_cluster, fault).await,
        Class::StartWhileLoading => redis::start_while_loading(test_cluster, fault).await,
        Class::EndpointSwitch => endpoint::switch(test_cluster, fault).await,
        Class::RedisClock => redis::set_clock(test_cluster, fault).await,
        Class::RedisPause => redis::pause(test_cluster, fault).await,
        Class::RedisBusy => redis::pause_clients(test_cluster, fault).await,
        Class::ScriptFlush => redis::flush_scripts(test_cluster, fault).await,
        Class::Subscriptions => redis::close_subscriptions(test_cluster, fault).await,
        Class::MemoryFull => redis::fill_memory(test_cluster, fault).await,
        Class::MemoryInUse => memory::use_full_redis(test_cluster, fault).await,
        Class::DiskFull => redis::fill_disk(test_cluster, fault).await,
        Class::Failover => fail_over(test_cluster, fault).await,
        Class::Reshard => cluster::reshard(test_cluster, fault).await,
        Class::NetDelay => network::delay(test_cluster, fault).await,
        Class::NetCut => network::cut(test_cluster, fault).await,
        Class::NetSilence => network::make_half_open(test_cluster, fault).await,
        Class::NetReplies => network::drop_replies(test_cluster, fault).await,
        Class::NetStall => network::stall(test_cluster, fault).await,
        Class::ClientCut => network::cut_clients(test_cluster, fault).await,
        Class::Lanes => lanes::change(test_cluster, fault).await,
        Class::LanesRace => lanes::race(test_cluster, fault).await,
        Class::Revocation => tokens::revoke(test_cluster, shared, fault).await,
        Class::PoolMove => pools::change(test_cluster, fault).await,
        Class::ShardAway => shards::isolate_primary(test_cluster, fault).await,
        Class::TokensAway => shards::isolate_token_primary(test_cluster, fault).await,
        Class::LoginRefused => shards::reject_logins(test_cluster, fault).await,
        Class::PumpCutOff => shards::isolate_pump(test_cluster, fault).await,
        Class::IdleTimeout => redis::close_idle_connections(test_cluster, fault).await,
        Class::FewFiles => host::limit_open_files(test_cluster, fault).await,
        Class::LogUnread => host::block_log_output(test_cluster, fault).await,
        Class::TenantFlood => tenants::flood(test_cluster, fault).await,
    }
}

async fn fail_over(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let count = &test_cluster.redis.failovers;
    match test_cluster.redis.servers() {
        RedisServers::Watched(group) => sentinels::fail_over(group, count, fault).await,
        RedisServers::Cluster { group, .. } => cluster::fail_over(group, count, fault).await,
        RedisServers::Alone(_) => panic!("this fault needs a replica"),
    }
}
