//! Faults of Redis.

use std::time::Duration;

use tidegate_testkit::{RedisServer, limit_file_size};
use tokio::runtime::Handle;

use super::daemons::{POLL_INTERVAL, choose_daemon};
use super::open_episode::{MS, OpenEpisode, RECOVERY, TAKEOVER, repeat_for};
use crate::deployment::LEASE_MS;
use crate::fault::PlannedFault;
use crate::history::{Episode, Span, now};
use crate::test_cluster::{RedisBackend, RedisServers, TestCluster};

/// `timeout` of Redis. Longer than 2.5 s, since daemons do not check connections that were idle for less.
const IDLE_S: u64 = 3;
const PAUSE: Duration = Duration::from_millis(100);
/// How long before a crash acknowledged writes may be lost, in µs: Redis syncs once a second, and waits up to two more
/// for a slow disk.
const LOSS: u64 = 3000 * MS;
/// Remaining memory: far less than clients publish in a second, including bodies outside of records.
const MEMORY_ROOM_BYTES: u64 = 100_000;
const DISK_ROOM_BYTES: u64 = 60_000;
/// How long after the last kill all subscriptions are open again and missed jobs have been found, in µs.
const RESUBSCRIBED: u64 = 1000 * MS;
/// Largest jump. A run can become longer by this, since jobs that are published while the clock is ahead are due later.
const CLOCK_JUMP_MAX_S: u32 = 40;
/// Time until a Redis that was killed answers LOADING.
const LOAD_BEGUN: Duration = Duration::from_millis(300);
/// A test setting of Redis: how long it sleeps after each loaded command or key, in µs.
const LOAD_DELAY: &str = "key-load-delay";
/// How much longer than asked for such a sleep takes: the timer slack of Linux, 50 µs, and a change of tasks.
const PAUSE_US: u64 = 60;

/// Runs a blocking action on a Redis without a replica.
async fn with_redis<T>(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
    what: impl FnOnce(&mut RedisServer) -> T,
) -> T {
    let RedisServers::Alone(servers) = test_cluster.redis.servers() else {
        panic!("this fault is for a Redis without a replica");
    };
    let server = &servers[fault.target % servers.len()];
    let mut redis = server.redis.lock().await;
    tokio::task::block_in_place(|| what(&mut redis))
}

fn restart(redis: &mut RedisServer) {
    redis.restart().unwrap_or_else(|error| panic!("{error}"));
}

/// Marks the span of possible loss, if a crash of this deployment may lose acknowledged writes.
fn mark_possible_loss(backend: &RedisBackend, mut episode: Episode) -> Episode {
    let Span { from, to } = episode.span;
    episode.may_lose = backend.may_lose_acknowledged.then_some(Span {
        from: from - LOSS,
        to,
    });
    episode
}

pub(super) async fn kill(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    with_redis(test_cluster, fault, RedisServer::kill).await;
    tokio::time::sleep(fault.length()).await;
    with_redis(test_cluster, fault, restart).await;
    let episode = open_episode.end_excusing("redis killed".to_owned(), RECOVERY);
    vec![mark_possible_loss(&test_cluster.redis, episode)]
}

/// Redis answers LOADING for about the length of the fault, since each loaded command is delayed.
pub(super) async fn load_slowly(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    with_redis(test_cluster, fault, |redis| restart_slowly(redis, fault)).await;
    let episode = open_episode.end_excusing("redis killed, loading slowly".to_owned(), RECOVERY);
    vec![mark_possible_loss(&test_cluster.redis, episode)]
}

/// An API and a pump start while Redis answers LOADING, and wait for it. The doorbells of the API are lost, and other
/// pumps take over from the pump.
pub(super) async fn start_while_loading(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    let api = choose_daemon(&test_cluster.apis, fault);
    let pump = choose_daemon(&test_cluster.pumps, fault);
    api.daemon.kill();
    pump.daemon.kill();
    let killed = now();
    let runtime = Handle::current();
    with_redis(test_cluster, fault, |redis| {
        std::thread::scope(|scope| {
            scope.spawn(|| restart_slowly(redis, fault));
            #[expect(
                clippy::disallowed_methods,
                reason = "this thread may block, as another one does that starts Redis"
            )]
            runtime.block_on(async {
                tokio::time::sleep(LOAD_BEGUN).await;
                tokio::join!(api.daemon.restart(), pump.daemon.restart());
            });
        });
    })
    .await;
    let what = format!("{} and {} started while redis loaded", api.name, pump.name);
    let episode = open_episode.end_excusing(what, RECOVERY);
    let taken_over = killed + (LEASE_MS * MS + TAKEOVER).max(POLL_INTERVAL + 1000 * MS);
    let episode = Episode {
        excuses_until: episode.excuses_until.max(taken_over),
        ..episode
    };
    vec![mark_possible_loss(&test_cluster.redis, episode)]
}

/// Kills a Redis, and starts it so that it loads for about the length of the fault.
fn restart_slowly(redis: &mut RedisServer, fault: &PlannedFault) {
    redis.kill();
    let delay = load_delay(fault.length_ms * 1000, commands_to_load(redis).max(1));
    redis.set_for_next_start(LOAD_DELAY, &delay.to_string());
    restart(redis);
    redis.set_for_next_start(LOAD_DELAY, "0");
}

/// The value of `key-load-delay` with which Redis loads so many commands in about this time: the pause of each command
/// in µs, or, below 0, the number of commands of which one has a pause. A pause takes [`PAUSE_US`] longer than it
/// should.
fn load_delay(length_us: u64, commands: u64) -> i64 {
    let each_us = length_us / commands;
    let delay = match each_us.checked_sub(PAUSE_US) {
        Some(delay_us) if delay_us > 0 => i64::try_from(delay_us),
        _ => i64::try_from(PAUSE_US * commands / length_us.max(1)).map(|every| -every.max(1)),
    };
    delay.unwrap_or(1)
}

/// Returns the approximate number of commands in its append-only file.
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

/// Times of jobs use Redis's clock. Only jobs that are published, or whose lease begins, while the clock is wrong are
/// early or late by the jump.
pub(super) async fn set_clock(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let RedisServers::Alone(servers) = test_cluster.redis.servers() else {
        panic!("this fault is for a Redis without a replica");
    };
    let sign = if fault.variant_of(2) == 0 { 1 } else { -1 };
    let jump_s = sign * i64::from((fault.variant >> 1) % CLOCK_JUMP_MAX_S + 1);
    let set_all = |ahead_s| {
        let clocks = servers.iter().filter_map(|server| server.clock.as_ref());
        clocks.for_each(|clock| clock.set(ahead_s));
    };
    let open_episode = OpenEpisode::start(fault);
    set_all(jump_s);
    tokio::time::sleep(fault.length()).await;
    set_all(0);
    // Jobs that were due while the clock was behind come at once when it is correct again. Their clients need up to
    // as long as it was wrong: seed 1469204656 of 6 s.
    let wrong_for = now() - open_episode.from;
    let what = format!("the clock of redis jumped by {jump_s} s");
    vec![open_episode.end_excusing(what, RECOVERY + wrong_for)]
}

pub(super) async fn pause(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    with_redis(test_cluster, fault, |redis| {
        redis.pause().unwrap_or_else(|error| panic!("{error}"))
    })
    .await;
    tokio::time::sleep(fault.length()).await;
    with_redis(test_cluster, fault, |redis| {
        redis.resume().unwrap_or_else(|error| panic!("{error}"))
    })
    .await;
    vec![open_episode.end_excusing("redis paused".to_owned(), RECOVERY)]
}

pub(super) async fn pause_clients(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let mut controls = test_cluster.redis.connect_to_all().await;
    let open_episode = OpenEpisode::start(fault);
    for control in &mut controls {
        control.pause_clients(fault.length()).await;
    }
    tokio::time::sleep(fault.length()).await;
    vec![open_episode.end_excusing("redis answered no client".to_owned(), RECOVERY)]
}

/// Excuses nothing, and no request may fail: a connection that was idle is checked or replaced before it is used.
pub(super) async fn close_idle_connections(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    for control in &mut test_cluster.redis.connect_to_all().await {
        control.set_idle_timeout_s(IDLE_S).await;
    }
    tokio::time::sleep(fault.length()).await;
    for control in &mut test_cluster.redis.connect_to_all().await {
        control.set_idle_timeout_s(0).await;
    }
    vec![open_episode.end("idle connections closed".to_owned())]
}

/// Excuses nothing: scripts are loaded again.
pub(super) async fn flush_scripts(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let mut controls = test_cluster.redis.connect_to_all().await;
    let open_episode = OpenEpisode::start(fault);
    repeat_for(fault.length(), PAUSE, async || {
        for control in &mut controls {
            control.flush_scripts().await;
        }
    })
    .await;
    vec![open_episode.end("scripts flushed".to_owned())]
}

/// Lost notifications are made up for when the subscription is open again: it is opened 0.2 s after the last one ended,
/// and a pump then checks all of its buckets.
pub(super) async fn close_subscriptions(
    test_cluster: &TestCluster,
    fault: &PlannedFault,
) -> Vec<Episode> {
    let mut controls = test_cluster.redis.connect_to_all().await;
    let open_episode = OpenEpisode::start(fault);
    let mut ended = 0;
    repeat_for(fault.length(), PAUSE, async || {
        for control in &mut controls {
            ended += control.end_subscriptions().await;
        }
    })
    .await;
    vec![open_episode.end_excusing(format!("{ended} subscriptions closed"), RESUBSCRIBED)]
}

/// Excuses nothing: stored jobs are delivered in time.
pub(super) async fn fill_memory(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let mut controls = test_cluster.redis.connect_to_all().await;
    let open_episode = OpenEpisode::start(fault);
    for control in &mut controls {
        control.limit_memory(Some(MEMORY_ROOM_BYTES)).await;
    }
    tokio::time::sleep(fault.length()).await;
    let episode = open_episode.end("out of memory".to_owned());
    for control in &mut controls {
        control.limit_memory(None).await;
    }
    vec![episode]
}

/// A Redis that syncs each write exits; one that syncs each second rejects writes until there is room.
pub(super) async fn fill_disk(test_cluster: &TestCluster, fault: &PlannedFault) -> Vec<Episode> {
    let open_episode = OpenEpisode::start(fault);
    with_redis(test_cluster, fault, |redis| {
        limit_file_size(redis, Some(DISK_ROOM_BYTES))
    })
    .await;
    tokio::time::sleep(fault.length()).await;
    let has_ended = with_redis(test_cluster, fault, |redis| {
        let has_ended = !redis.is_running();
        match has_ended {
            true => restart(redis),
            false => limit_file_size(redis, None),
        }
        has_ended
    })
    .await;
    let what = match has_ended {
        true => "disk full, redis exited",
        false => "disk full",
    };
    let episode = open_episode.end_excusing(what.to_owned(), RECOVERY);
    vec![match has_ended {
        true => mark_possible_loss(&test_cluster.redis, episode),
        false => episode,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed 41068: 60,000 commands with a pause of 80 µs each, which took 140, loaded for longer than a restart may
    /// take.
    #[test]
    fn a_slow_load_takes_as_long_as_the_fault_however_many_commands_there_are() {
        const LENGTH_US: u64 = 5_000_000;
        for commands in [1, 100, 5_000, 60_000, 1_000_000] {
            let delay = load_delay(LENGTH_US, commands);
            let pauses_us = match u64::try_from(delay) {
                Ok(delay_us) => commands * (delay_us + PAUSE_US),
                Err(_) => commands / delay.unsigned_abs() * PAUSE_US,
            };
            assert!(
                (LENGTH_US / 2..=LENGTH_US * 2).contains(&pauses_us),
                "{commands} commands: {delay}, {pauses_us} µs"
            );
        }
    }
}
