//! Faults, as they are made to happen. Each strike answers with the episodes that it was.

mod cluster;
mod host;
mod lanes;
mod network;
mod pods;
mod pools;
mod redis;
mod sentinels;
mod shards;
mod tokens;

use std::time::Duration;

use crate::fault::{Class, Fault};
use crate::history::{Episode, Moment, Span, now};
use crate::site::{Servers, Site};
use crate::traffic::Shared;

const MS: u64 = 1000;
/// How long daemons may need to work again once Redis does.
const RECOVERY: u64 = 2000 * MS;
/// How long other pumps may need to take over once a lease is over.
const TAKEOVER: u64 = 1000 * MS;
/// How long it may take until a silent connection is found out: a subscription is asked for a sign of life every 5 s, and
/// has 5 s to give it.
const SILENCE_NOTICED: u64 = 10_000 * MS;
/// What a master acknowledges and its replicas have not heard of yet: usually some ms, on a busy machine more.
const REPLICATION: u64 = 1000 * MS;
/// How long calls to a master that has fallen silent may go on to fail.
const CALLS_FAIL: u64 = 3000 * MS;
/// How long a master that was replaced may go on to acknowledge, until it is told.
const DEMOTED: Duration = Duration::from_secs(2);

/// Lets a fault happen, and waits until it is over.
pub(crate) async fn strike(site: &Site, shared: &Shared, fault: &Fault) -> Vec<Episode> {
    match fault.class {
        Class::ApiKill => pods::kill_api(site, fault).await,
        Class::ApiPause => pods::pause_api(site, fault).await,
        Class::PumpKill => pods::kill_pump(site, fault).await,
        Class::PumpPause => pods::pause_pump(site, fault).await,
        Class::Upgrade => pods::upgrade(site).await,
        Class::Clock => pods::set_clocks(site, fault).await,
        Class::RedisKill => redis::kill(site, fault).await,
        Class::RedisLoading => redis::load_slowly(site, fault).await,
        Class::RedisClock => redis::set_clock(site, fault).await,
        Class::RedisPause => redis::pause(site, fault).await,
        Class::RedisBusy => redis::answer_nobody(site, fault).await,
        Class::ScriptFlush => redis::forget_scripts(site, fault).await,
        Class::Subscriptions => redis::end_subscriptions(site, fault).await,
        Class::MemoryFull => redis::fill_memory(site, fault).await,
        Class::DiskFull => redis::fill_disk(site, fault).await,
        Class::Failover => fail_over(site, fault).await,
        Class::Reshard => cluster::reshard(site, fault).await,
        Class::NetDelay => network::delay(site, fault).await,
        Class::NetCut => network::cut(site, fault).await,
        Class::NetSilence => network::silence(site, fault).await,
        Class::NetReplies => network::swallow_replies(site, fault).await,
        Class::NetStall => network::stall(site, fault).await,
        Class::ClientCut => network::cut_clients(site, fault).await,
        Class::Lanes => lanes::change(site, fault).await,
        Class::LanesRace => lanes::race(site, fault).await,
        Class::Revocation => tokens::revoke(site, shared, fault).await,
        Class::PoolMove => pools::change(site, fault).await,
        Class::ShardAway => shards::take_away(site, fault).await,
        Class::TokensAway => shards::take_tokens_away(site, fault).await,
        Class::LoginRefused => shards::refuse_logins(site, fault).await,
        Class::PumpCutOff => shards::cut_pump_off(site, fault).await,
        Class::IdleTimeout => redis::end_idle(site, fault).await,
        Class::FewFiles => host::have_few_files(site, fault).await,
        Class::LogUnread => host::leave_log_unread(site, fault).await,
    }
}

async fn fail_over(site: &Site, fault: &Fault) -> Vec<Episode> {
    let count = &site.keeper.failovers;
    match site.keeper.servers() {
        Servers::Watched(group) => sentinels::fail_over(group, count, fault).await,
        Servers::Cluster { group, .. } => cluster::fail_over(group, count, fault).await,
        Servers::Alone(_) => panic!("this fault needs a replica"),
    }
}

impl Fault {
    const fn length(&self) -> Duration {
        Duration::from_millis(self.length_ms)
    }

    /// One of the ways in which it can happen.
    const fn choose(&self, ways: u32) -> u32 {
        self.variant % ways
    }
}

/// An episode that begins now.
struct Begun {
    class: Class,
    from: Moment,
}

impl Begun {
    fn now(fault: &Fault) -> Self {
        Self {
            class: fault.class,
            from: now(),
        }
    }

    /// It ends now, and excuses nothing.
    fn end(self, what: String) -> Episode {
        Episode {
            class: self.class,
            what,
            span: Span {
                from: self.from,
                to: now(),
            },
            excuses_until: self.from,
            may_lose: None,
            spared: Vec::new(),
            spared_from: 0,
        }
    }

    /// It ends now, and excuses what is late until so long after.
    fn end_excusing(self, what: String, after: u64) -> Episode {
        let episode = self.end(what);
        Episode {
            excuses_until: episode.span.to + after,
            ..episode
        }
    }
}

/// Does something again and again for a while.
async fn again_and_again(length: Duration, pause: Duration, mut what: impl AsyncFnMut()) {
    let end = tokio::time::Instant::now() + length;
    while tokio::time::Instant::now() < end {
        what().await;
        tokio::time::sleep(pause).await;
    }
}
