//! What happens to one primary of a cluster, or to those who log in at a server, while the others work.

use std::time::Duration;

use tidegate_core::keys;
use tidegate_testkit::fault_proxy::{FaultProxy, Flow, Way, Weather};
use tidegate_testkit::{ClusterGroup, RedisControl};

use super::{Begun, CALLS_FAIL, MS, RECOVERY, TAKEOVER};
use crate::fault::Fault;
use crate::history::Episode;
use crate::plan::LEASE_MS;
use crate::site::{BUCKETS, POOL, Servers, Site};
use crate::traffic::{LANED, LIMITED_QUEUE, all_queues};

/// After that requests go on by the last known answers about tokens and limits: each is waited for once in an API, for 0.5 s.
const TOKENS_LEFT_OUT: u64 = 2000 * MS;
/// Each piece that goes to or comes from a primary that is far away.
const FAR: Duration = Duration::from_millis(150);

/// A primary of a cluster.
struct Primary<'a> {
    number: usize,
    url: String,
    way: &'a FaultProxy,
    /// The queues that are not there.
    elsewhere: Vec<u16>,
}

impl<'a> Primary<'a> {
    async fn choose(site: &'a Site, choose: impl AsyncFn(&ClusterGroup) -> usize) -> Self {
        let Servers::Cluster { group, ways } = site.keeper.servers() else {
            panic!("this fault is for a cluster");
        };
        let group = group.lock().await;
        let number = choose(&group).await;
        Self {
            number,
            url: group.url(number),
            way: &ways[number],
            elsewhere: elsewhere(site, &group, number).await,
        }
    }

    async fn any(site: &'a Site, draw: usize) -> Self {
        Self::choose(site, async |group| {
            let primaries = group.primaries().await;
            primaries[draw % primaries.len()]
        })
        .await
    }
}

/// The queues of the run none of whose jobs are on this primary. Those that may have several lanes are on all, and requests of the
/// one with a rate limit wait for 2 s until an API counts by itself.
async fn elsewhere(site: &Site, group: &ClusterGroup, primary: usize) -> Vec<u16> {
    let mut elsewhere = Vec::new();
    for queue in all_queues().filter(|queue| !LANED.contains(queue) && *queue != LIMITED_QUEUE) {
        let slot = group.slot_of_bucket(site.bucket(queue), BUCKETS).await;
        if group.owner_of(slot).await != primary {
            elsewhere.push(queue);
        }
    }
    elsewhere
}

pub(super) async fn take_away(site: &Site, fault: &Fault) -> Vec<Episode> {
    let primary = Primary::any(site, fault.target).await;
    away(&primary, fault).await
}

pub(super) async fn take_tokens_away(site: &Site, fault: &Fault) -> Vec<Episode> {
    let key = keys::tokens(POOL, site.namespace());
    let primary = Primary::choose(site, async |group| {
        group.owner_of(group.slot_of(&key).await).await
    });
    away(&primary.await, fault).await
}

/// The nodes reach each other on other ways, so there is no failover.
async fn away(primary: &Primary<'_>, fault: &Fault) -> Vec<Episode> {
    let both = |way: Way| Weather {
        to_server: way,
        to_client: way,
        refuses: false,
    };
    let (how, weather) = match fault.choose(3) {
        0 => {
            let flow = Flow::Stalls;
            let stalls = Way {
                flow,
                ..Way::default()
            };
            ("silent", both(stalls))
        }
        1 => {
            let refuses = Weather {
                refuses: true,
                ..Weather::default()
            };
            ("unreachable", refuses)
        }
        _ => {
            let delay = FAR;
            let far = Way {
                delay,
                ..Way::default()
            };
            ("far away", both(far))
        }
    };
    let begun = Begun::now(fault);
    primary.way.set(weather);
    if weather.refuses {
        primary.way.cut();
    }
    tokio::time::sleep(fault.length()).await;
    primary.way.set(Weather::default());
    let what = format!("redis-{} was {how}", primary.number);
    vec![Episode {
        spared: primary.elsewhere.clone(),
        spared_from: begun.from + TOKENS_LEFT_OUT,
        ..begun.end_excusing(what, CALLS_FAIL + RECOVERY)
    }]
}

/// Another pump takes over what is there when the membership of the pump on that primary ends.
pub(super) async fn cut_pump_off(site: &Site, fault: &Fault) -> Vec<Episode> {
    let primary = Primary::any(site, (fault.variant >> 8) as usize).await;
    let pump = &site.pumps[fault.target % site.pumps.len()].name;
    let mut control = RedisControl::of(&primary.url).await;
    let begun = Begun::now(fault);
    control.refuse_users(&[pump]).await;
    tokio::time::sleep(fault.length()).await;
    control.admit_users(&[pump]).await;
    let excuses_until = begun.from + LEASE_MS * MS + TAKEOVER;
    vec![Episode {
        excuses_until,
        spared: primary.elsewhere,
        spared_from: begun.from,
        ..begun.end(format!("{pump} refused by redis-{}", primary.number))
    }]
}

/// A daemon that is refused tries again once a second.
pub(super) async fn refuse_logins(site: &Site, fault: &Fault) -> Vec<Episode> {
    let (url, whose, spared) = match site.keeper.servers() {
        Servers::Cluster { .. } => {
            let primary = Primary::any(site, fault.target).await;
            let whose = format!("redis-{}", primary.number);
            (primary.url, whose, primary.elsewhere)
        }
        _ => {
            let urls = site.keeper.urls().await;
            let number = fault.target % urls.len();
            (urls[number].clone(), format!("redis-{number}"), Vec::new())
        }
    };
    let names: Vec<&str> = site.pods().map(|pod| pod.name.as_str()).collect();
    let mut control = RedisControl::of(&url).await;
    let begun = Begun::now(fault);
    control.refuse_users(&names).await;
    tokio::time::sleep(fault.length()).await;
    control.admit_users(&names).await;
    vec![Episode {
        spared,
        spared_from: begun.from + TOKENS_LEFT_OUT,
        ..begun.end_excusing(format!("logins refused by {whose}"), RECOVERY)
    }]
}
