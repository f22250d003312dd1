//! What happens to Redis.

use std::time::Duration;

use tidegate_testkit::{RedisServer, limit_disk};

use super::{Begun, MS, RECOVERY, again_and_again};
use crate::fault::Fault;
use crate::history::{Episode, Span};
use crate::site::{Keeper, Servers, Site};

/// Longer than 2.5 s: a connection that is idle for less is not checked.
const IDLE_S: u64 = 3;
const PAUSE: Duration = Duration::from_millis(100);
/// What Redis may still have had in its hands when it died: it writes once a second, and waits up to two more for a
/// slow disk.
const LOSS: u64 = 3000 * MS;
/// Far less than what is published in a second, bodies outside of records included.
const MEMORY_ROOM_BYTES: u64 = 100_000;
const DISK_ROOM_BYTES: u64 = 60_000;
/// After their last end all subscriptions are new, and what was missed has been looked for.
const RESUBSCRIBED: u64 = 1000 * MS;
/// A run becomes longer by the largest jump: jobs that are published while the clock is ahead are due so much later.
const CLOCK_JUMP_MAX_S: u32 = 40;
/// A setting of Redis for tests: how long it sleeps after each command or key that it loads, in µs.
const LOAD_DELAY: &str = "key-load-delay";

/// Does something to a Redis that has no replica, off the threads that carry the traffic.
async fn with_redis<T>(site: &Site, fault: &Fault, what: impl FnOnce(&mut RedisServer) -> T) -> T {
    let Servers::Alone(servers) = site.keeper.servers() else {
        panic!("this fault is for a Redis without a replica");
    };
    let server = &servers[fault.target % servers.len()];
    let mut redis = server.redis.lock().await;
    tokio::task::block_in_place(|| what(&mut redis))
}

fn start_again(redis: &mut RedisServer) {
    redis
        .start_again()
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Where Redis may forget, all that it acknowledged shortly before its end may be lost.
fn with_loss(keeper: &Keeper, mut episode: Episode) -> Episode {
    let Span { from, to } = episode.span;
    episode.may_lose = keeper.forgets.then_some(Span {
        from: from - LOSS,
        to,
    });
    episode
}

pub(super) async fn kill(site: &Site, fault: &Fault) -> Vec<Episode> {
    let begun = Begun::now(fault);
    with_redis(site, fault, RedisServer::kill).await;
    tokio::time::sleep(fault.length()).await;
    with_redis(site, fault, start_again).await;
    let episode = begun.end_excusing("redis killed".to_owned(), RECOVERY);
    vec![with_loss(&site.keeper, episode)]
}

/// It answers LOADING for about as long as the fault lasts: each command that it loads takes some time.
pub(super) async fn load_slowly(site: &Site, fault: &Fault) -> Vec<Episode> {
    let begun = Begun::now(fault);
    with_redis(site, fault, |redis| {
        redis.kill();
        let commands = commands_to_load(redis).max(1);
        let delay_us = (fault.length_ms * 1000 / commands).max(1);
        redis.set_for_next_start(LOAD_DELAY, &delay_us.to_string());
        start_again(redis);
        redis.set_for_next_start(LOAD_DELAY, "0");
    })
    .await;
    let episode = begun.end_excusing("redis killed, loading slowly".to_owned(), RECOVERY);
    vec![with_loss(&site.keeper, episode)]
}

/// About how many there are in its append-only file.
fn commands_to_load(redis: &RedisServer) -> u64 {
    let folder = redis.data_folder().join("appendonlydir");
    let files = std::fs::read_dir(folder).into_iter().flatten();
    let counts = files.filter_map(|file| {
        let bytes = std::fs::read(file.ok()?.path()).ok()?;
        let commands = bytes
            .windows(3)
            .filter(|window| window.starts_with(b"\r\n*"));
        Some(commands.count() as u64)
    });
    counts.sum()
}

/// Times of jobs count from Redis's clock. What is due before it jumps and after it jumped back is due all the same: only
/// jobs that are published, or whose lease begins, meanwhile are late by the jump.
pub(super) async fn set_clock(site: &Site, fault: &Fault) -> Vec<Episode> {
    let Servers::Alone(servers) = site.keeper.servers() else {
        panic!("this fault is for a Redis without a replica");
    };
    let sign = if fault.choose(2) == 0 { 1 } else { -1 };
    let jump_s = sign * i64::from((fault.variant >> 1) % CLOCK_JUMP_MAX_S + 1);
    let set_all = |ahead_s| {
        let clocks = servers.iter().filter_map(|server| server.clock.as_ref());
        clocks.for_each(|clock| clock.set(ahead_s));
    };
    let begun = Begun::now(fault);
    set_all(jump_s);
    tokio::time::sleep(fault.length()).await;
    set_all(0);
    vec![begun.end_excusing(format!("the clock of redis jumped by {jump_s} s"), RECOVERY)]
}

pub(super) async fn pause(site: &Site, fault: &Fault) -> Vec<Episode> {
    let begun = Begun::now(fault);
    with_redis(site, fault, |redis| {
        redis.pause().unwrap_or_else(|error| panic!("{error}"))
    })
    .await;
    tokio::time::sleep(fault.length()).await;
    with_redis(site, fault, |redis| {
        redis.resume().unwrap_or_else(|error| panic!("{error}"))
    })
    .await;
    vec![begun.end_excusing("redis stood still".to_owned(), RECOVERY)]
}

pub(super) async fn answer_nobody(site: &Site, fault: &Fault) -> Vec<Episode> {
    let mut controls = site.keeper.controls().await;
    let begun = Begun::now(fault);
    for control in &mut controls {
        control.answer_nobody_for(fault.length()).await;
    }
    tokio::time::sleep(fault.length()).await;
    vec![begun.end_excusing("redis answered nobody".to_owned(), RECOVERY)]
}

/// Excuses nothing, and no request may fail: a connection that was idle is checked, or replaced, before it is used.
pub(super) async fn end_idle(site: &Site, fault: &Fault) -> Vec<Episode> {
    let begun = Begun::now(fault);
    for control in &mut site.keeper.controls().await {
        control.end_idle_after_s(IDLE_S).await;
    }
    tokio::time::sleep(fault.length()).await;
    for control in &mut site.keeper.controls().await {
        control.end_idle_after_s(0).await;
    }
    vec![begun.end("idle connections ended".to_owned())]
}

/// Excuses nothing: scripts are sent again.
pub(super) async fn forget_scripts(site: &Site, fault: &Fault) -> Vec<Episode> {
    let mut controls = site.keeper.controls().await;
    let begun = Begun::now(fault);
    again_and_again(fault.length(), PAUSE, async || {
        for control in &mut controls {
            control.forget_scripts().await;
        }
    })
    .await;
    vec![begun.end("scripts forgotten".to_owned())]
}

/// Whose message was lost looks again when the subscription is new: it is opened 0.2 s after the last one ended, and a pump then
/// looks at all of its buckets.
pub(super) async fn end_subscriptions(site: &Site, fault: &Fault) -> Vec<Episode> {
    let mut controls = site.keeper.controls().await;
    let begun = Begun::now(fault);
    let mut ended = 0;
    again_and_again(fault.length(), PAUSE, async || {
        for control in &mut controls {
            ended += control.end_subscriptions().await;
        }
    })
    .await;
    vec![begun.end_excusing(format!("{ended} subscriptions ended"), RESUBSCRIBED)]
}

/// Excuses nothing: jobs that are there come in time.
pub(super) async fn fill_memory(site: &Site, fault: &Fault) -> Vec<Episode> {
    let mut controls = site.keeper.controls().await;
    let begun = Begun::now(fault);
    for control in &mut controls {
        control.limit_memory(Some(MEMORY_ROOM_BYTES)).await;
    }
    tokio::time::sleep(fault.length()).await;
    let episode = begun.end("no memory left".to_owned());
    for control in &mut controls {
        control.limit_memory(None).await;
    }
    vec![episode]
}

/// A Redis that syncs each write ends itself; one that syncs each second takes no writes until there is room.
pub(super) async fn fill_disk(site: &Site, fault: &Fault) -> Vec<Episode> {
    let begun = Begun::now(fault);
    with_redis(site, fault, |redis| {
        limit_disk(redis, Some(DISK_ROOM_BYTES))
    })
    .await;
    tokio::time::sleep(fault.length()).await;
    let has_ended = with_redis(site, fault, |redis| {
        let has_ended = !redis.is_running();
        match has_ended {
            true => start_again(redis),
            false => limit_disk(redis, None),
        }
        has_ended
    })
    .await;
    let what = match has_ended {
        true => "disk full, redis ended itself",
        false => "disk full",
    };
    let episode = begun.end_excusing(what.to_owned(), RECOVERY);
    vec![match has_ended {
        true => with_loss(&site.keeper, episode),
        false => episode,
    }]
}
