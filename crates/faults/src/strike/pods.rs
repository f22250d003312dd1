//! What happens to daemons.

use std::time::Duration;

use super::{Begun, MS, TAKEOVER};
use crate::fault::Fault;
use crate::history::{Episode, now};
use crate::plan::LEASE_MS;
use crate::site::{Pod, Site};

/// A daemon's own limit for what is under way when it is asked to end, and some more.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const HOUR_S: i64 = 3600;

pub(super) fn one_of<'a>(pods: &'a [Pod], fault: &Fault) -> &'a Pod {
    &pods[fault.target % pods.len()]
}

/// The other APIs go on: nothing excuses that jobs are late.
pub(super) async fn kill_api(site: &Site, fault: &Fault) -> Vec<Episode> {
    let api = one_of(&site.apis, fault);
    let begun = Begun::now(fault);
    api.daemon.kill();
    tokio::time::sleep(fault.length()).await;
    api.daemon.restart().await;
    vec![begun.end(format!("{} killed", api.name))]
}

/// What it had reserved for its consumers comes to nobody before it goes on: that excuses what is late until then.
pub(super) async fn pause_api(site: &Site, fault: &Fault) -> Vec<Episode> {
    let api = one_of(&site.apis, fault);
    let begun = Begun::now(fault);
    api.daemon.pause();
    tokio::time::sleep(fault.length()).await;
    api.daemon.resume();
    vec![begun.end_excusing(format!("{} stood still", api.name), 0)]
}

pub(super) async fn kill_pump(site: &Site, fault: &Fault) -> Vec<Episode> {
    let pump = one_of(&site.pumps, fault);
    let begun = Begun::now(fault);
    pump.daemon.kill();
    let killed = now();
    tokio::time::sleep(fault.length()).await;
    pump.daemon.restart().await;
    vec![Episode {
        excuses_until: killed + LEASE_MS * MS + TAKEOVER,
        ..begun.end(format!("{} killed", pump.name))
    }]
}

pub(super) async fn pause_pump(site: &Site, fault: &Fault) -> Vec<Episode> {
    let pump = one_of(&site.pumps, fault);
    let begun = Begun::now(fault);
    pump.daemon.pause();
    let paused = now();
    tokio::time::sleep(fault.length()).await;
    pump.daemon.resume();
    vec![Episode {
        excuses_until: paused + LEASE_MS * MS + TAKEOVER,
        ..begun.end(format!("{} stood still", pump.name))
    }]
}

/// Nothing excuses that jobs are late: each daemon hands over before it goes.
pub(super) async fn upgrade(site: &Site) -> Vec<Episode> {
    let mut episodes = Vec::new();
    for pod in site.pods() {
        let begun = Begun {
            class: crate::Class::Upgrade,
            from: now(),
        };
        restart(pod).await;
        episodes.push(begun.end(format!("{} replaced", pod.name)));
    }
    episodes
}

/// Ends a daemon by SIGTERM and starts it again.
pub(super) async fn restart(pod: &Pod) {
    stop(pod).await;
    pod.daemon.restart().await;
}

/// Ends a daemon by SIGTERM.
pub(super) async fn stop(pod: &Pod) {
    let status = pod.daemon.stop(STOP_LIMIT).await;
    assert_eq!(status.code(), Some(0), "{} did not end well", pod.name);
}

/// Wrong clocks excuse nothing either.
pub(super) async fn set_clocks(site: &Site, fault: &Fault) -> Vec<Episode> {
    let begun = Begun::now(fault);
    for (number, pod) in site.pods().enumerate() {
        let draw = fault.variant.rotate_left(number as u32 * 5);
        let sign = if draw.is_multiple_of(2) { 1 } else { -1 };
        pod.clock
            .set(sign * (i64::from(draw % 60) * 60 + 1).min(HOUR_S));
    }
    tokio::time::sleep(fault.length()).await;
    let episode = begun.end("all clocks jumped by up to an hour".to_owned());
    for pod in site.pods().step_by(2) {
        pod.clock.set(0);
    }
    vec![episode]
}
