//! Daemons that start before their Redis can be used.

use std::time::{Duration, Instant};

use tidegate_testkit::{
    Daemon, DaemonProgram, NO_SERVER, RedisControl, connect_to_redis, eventually, start_redis,
};

use crate::fixture::{DaemonFixture, LIMIT};

/// Keys that take time to load: 100 µs each.
const BALLAST: usize = 20_000;
const LOAD_DELAY_US: &str = "100";

async fn start_both(fixture: &DaemonFixture) -> [Daemon; 2] {
    let (api, pump) = tokio::join!(
        fixture.start(DaemonProgram::Api, &[]),
        fixture.start(DaemonProgram::Pumpd, &[])
    );
    [api, pump]
}

/// A server that loads its append-only file reports that it has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_starts_while_redis_loads_waits() {
    let mut fixture = DaemonFixture::new().await;
    let client = redis::Client::open(fixture.redis.url()).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let mut ballast = redis::pipe();
    for number in 0..BALLAST {
        ballast.set(format!("ballast-{number}"), "x").ignore();
    }
    ballast.exec_async(&mut connection).await.unwrap();
    let mut redis = std::mem::replace(&mut fixture.redis, start_redis());
    redis.kill();
    redis.set_for_next_start("key-load-delay", LOAD_DELAY_US);
    redis.set_for_next_start("loading-process-events-interval-bytes", "1024");
    let url = redis.url();
    let restarting = tokio::task::spawn_blocking(move || {
        redis.restart().unwrap();
        redis
    });
    eventually("redis loads", LIMIT, async || is_loading(&url).await).await;
    let waited = Instant::now();
    let start = async |program: DaemonProgram| {
        let arguments = ["--redis".to_owned(), url.clone()];
        let folder = fixture.path("");
        Daemon::start_with(program, program.name(), &arguments, &[], &folder).await
    };
    let (api, pump) = tokio::join!(start(DaemonProgram::Api), start(DaemonProgram::Pumpd));
    assert!(
        waited.elapsed() > Duration::from_secs(1),
        "nothing was waited for"
    );
    for daemon in [&api, &pump] {
        let log = daemon.log();
        assert!(
            log.contains("waiting for redis") && log.contains("the server is loading its data"),
            "{log}"
        );
    }
    fixture.redis = restarting.await.unwrap();
}

async fn is_loading(url: &str) -> Result<(), String> {
    let client = redis::Client::open(url).unwrap();
    let connecting = client.get_multiplexed_async_connection();
    let mut connection = connecting.await.map_err(|error| error.to_string())?;
    let ping = redis::cmd("PING");
    match ping.query_async::<String>(&mut connection).await {
        Err(error) if error.code() == Some("LOADING") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_starts_on_a_replica_waits_for_its_promotion() {
    let fixture = DaemonFixture::new().await;
    let mut redis = RedisControl::connect(&fixture.redis.url()).await;
    redis.replicate(Some(NO_SERVER)).await;
    let promoting = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        redis.replicate(None).await;
    };
    let (daemons, ()) = tokio::join!(start_both(&fixture), promoting);
    for daemon in &daemons {
        let log = daemon.log();
        assert!(
            log.contains("waiting for redis") && log.contains("the server is a replica of"),
            "{log}"
        );
    }
}
