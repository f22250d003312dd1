//! What happens between daemons and Redis, and between clients and APIs.

use std::time::Duration;

use tidegate_testkit::fault_proxy::{FaultProxy, Flow, Way, Weather};

use super::{Begun, MS, RECOVERY, SILENCE_NOTICED, again_and_again};
use crate::fault::Fault;
use crate::history::Episode;
use crate::plan::LEASE_MS;
use crate::site::{Servers, Site};

const CUT_PAUSE: Duration = Duration::from_millis(300);
/// Long enough for requests to pass between two cuts.
const CLIENT_CUT_PAUSE: Duration = Duration::from_millis(700);
const DELAY_MAX_MS: u32 = 60;
/// A call that gets no answer is given up after this.
const CALL_LIMIT: u64 = 3000 * MS;

/// The ways that a fault meets, and whose they are.
struct Met<'a> {
    links: Vec<&'a FaultProxy>,
    names: String,
}

/// One of the ways to Redis, or in one of four cases all: a daemon has one of its own, unless Redis is a cluster, where
/// each primary has one, which all daemons share.
async fn met<'a>(site: &'a Site, fault: &Fault) -> Met<'a> {
    let mut links: Vec<(String, &FaultProxy)> = match site.keeper.servers() {
        Servers::Cluster { group, ways } => {
            let primaries = group.lock().await.primaries().await;
            let primaries = primaries.into_iter();
            primaries
                .map(|it| (format!("redis-{it}"), &ways[it]))
                .collect()
        }
        _ => {
            let links = site
                .pods()
                .flat_map(|pod| pod.links.iter().map(|link| (pod.name.clone(), link)));
            links.collect()
        }
    };
    if fault.choose(4) != 0 {
        links = vec![links.swap_remove(fault.target % links.len())];
    }
    let (mut names, links): (Vec<String>, _) = links.into_iter().unzip();
    names.dedup();
    Met {
        links,
        names: names.join(", "),
    }
}

async fn holds(links: &[&FaultProxy], weather: Weather, length: Duration) {
    links.iter().for_each(|link| link.set(weather));
    tokio::time::sleep(length).await;
    links.iter().for_each(|link| link.set(Weather::default()));
}

/// A job is moved and delivered by many calls, one after the other, and each is late.
pub(super) async fn delay(site: &Site, fault: &Fault) -> Vec<Episode> {
    let met = met(site, fault).await;
    let way = |ms: u32| Way {
        flow: Flow::Passes,
        delay: Duration::from_millis(u64::from(ms % DELAY_MAX_MS)),
        jitter: Duration::from_millis(u64::from(ms / DELAY_MAX_MS % DELAY_MAX_MS)),
    };
    let weather = Weather {
        to_server: way(fault.variant >> 4),
        to_client: way(fault.variant >> 16),
        refuses: false,
    };
    let begun = Begun::now(fault);
    holds(&met.links, weather, fault.length()).await;
    vec![begun.end_excusing(format!("slow network at {}", met.names), 0)]
}

pub(super) async fn cut(site: &Site, fault: &Fault) -> Vec<Episode> {
    let met = met(site, fault).await;
    let begun = Begun::now(fault);
    again_and_again(fault.length(), CUT_PAUSE, async || {
        met.links.iter().for_each(|link| link.cut());
    })
    .await;
    vec![begun.end_excusing(format!("connections of {} reset", met.names), RECOVERY)]
}

/// The calls of a pump are found out soon; a subscription only by its next sign of life.
pub(super) async fn silence(site: &Site, fault: &Fault) -> Vec<Episode> {
    let met = met(site, fault).await;
    let begun = Begun::now(fault);
    met.links.iter().for_each(|link| link.silence());
    tokio::time::sleep(fault.length()).await;
    let noticed = SILENCE_NOTICED.saturating_sub(fault.length_ms * MS) + RECOVERY;
    vec![begun.end_excusing(format!("connections of {} half open", met.names), noticed)]
}

/// What was asked is done, and who asked does not hear of it.
pub(super) async fn swallow_replies(site: &Site, fault: &Fault) -> Vec<Episode> {
    let met = met(site, fault).await;
    let weather = Weather {
        to_client: Way {
            flow: Flow::Vanishes,
            ..Way::default()
        },
        ..Weather::default()
    };
    let begun = Begun::now(fault);
    holds(&met.links, weather, fault.length()).await;
    met.links.iter().for_each(|link| link.cut());
    vec![begun.end_excusing(
        format!("answers vanished at {}", met.names),
        LEASE_MS * MS + RECOVERY,
    )]
}

pub(super) async fn stall(site: &Site, fault: &Fault) -> Vec<Episode> {
    let met = met(site, fault).await;
    let stalls = Way {
        flow: Flow::Stalls,
        ..Way::default()
    };
    let passes = Way::default();
    let (to_server, to_client) = match fault.choose(3) {
        0 => (stalls, stalls),
        1 => (stalls, passes),
        _ => (passes, stalls),
    };
    let begun = Begun::now(fault);
    let weather = Weather {
        to_server,
        to_client,
        refuses: false,
    };
    holds(&met.links, weather, fault.length()).await;
    vec![begun.end_excusing(
        format!("nothing passed at {}", met.names),
        CALL_LIMIT + RECOVERY,
    )]
}

/// Other requests pass at once: no excuse.
pub(super) async fn cut_clients(site: &Site, fault: &Fault) -> Vec<Episode> {
    let begun = Begun::now(fault);
    let mut turns = site.apis.iter().cycle();
    again_and_again(fault.length(), CLIENT_CUT_PAUSE, async || {
        if let Some(api) = turns.next() {
            api.front().cut();
        }
    })
    .await;
    vec![begun.end("connections of clients reset".to_owned())]
}
