//! `/healthz` and `/readyz`, which load balancers and probes ask for.

use std::fs::File;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tidegate_core::keys::{BucketKey, DeploymentKeys};
use tidegate_testkit::{
    Answer, Daemon, DaemonProgram, NO_SERVER, RawHttp, RedisControl, Stack, eventually, free_port,
    stop_when_logged,
};

use tokio::time::sleep;

use crate::fixture::{DaemonFixture, LIMIT, ask, until_said, until_written};
use crate::service_manager::Running;
use crate::signals::NEXT_REQUEST;

/// Balancers give up after about a second. The rest is room for a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

async fn get(address: SocketAddr, path: &str) -> Answer {
    let begin = Instant::now();
    let answer = ask(address, "GET", path, &[]).await;
    let took = begin.elapsed();
    assert!(took < ANSWERED_WITHIN, "{path}: {took:?}");
    answer
}

async fn until_readyz(address: SocketAddr, status: u16) -> String {
    eventually(&format!("/readyz is {status}"), LIMIT, async || {
        let answer = get(address, "/readyz").await;
        if answer.status == status {
            Ok(answer.text())
        } else {
            Err(format!("{}: {}", answer.status, answer.text()))
        }
    })
    .await
}

fn ports(program: DaemonProgram, daemon: &Daemon) -> Vec<SocketAddr> {
    match program {
        DaemonProgram::Api => vec![daemon.admin(), daemon.listen()],
        DaemonProgram::Pumpd | DaemonProgram::Relayd => vec![daemon.admin()],
    }
}

#[tokio::test]
async fn readyz_follows_redis_and_healthz_stays_ok() {
    let mut fixture = DaemonFixture::new().await;
    // Few buckets, so that the pump is soon ready: it asks for the lease of each one first.
    let file = fixture.write("own.toml", "[pool.default]\nbuckets = 8\n");
    let api = fixture
        .start(DaemonProgram::Api, &["--config", &file])
        .await;
    let pump = fixture
        .start(DaemonProgram::Pumpd, &["--config", &file])
        .await;
    let ports = [
        ports(DaemonProgram::Api, &api),
        ports(DaemonProgram::Pumpd, &pump),
    ]
    .concat();
    for port in &ports {
        assert_eq!(get(*port, "/healthz").await.expect(200).text(), "ok");
        // A pump answers a moment before it is ready.
        assert_eq!(until_readyz(*port, 200).await, "ready");
    }
    fixture.redis.kill();
    for port in &ports {
        let message = until_readyz(*port, 503).await;
        assert!(message.starts_with("not ready\n"), "{message}");
        assert!(
            message.contains("pool default: redis is unavailable (unreachable)"),
            "{message}"
        );
        // Any client may read this, so it shows no address and no error of the system.
        assert!(
            !message.contains("127.0.0.1") && !message.contains("os error"),
            "{message}"
        );
        assert_eq!(get(*port, "/healthz").await.expect(200).text(), "ok");
    }
    fixture.redis.restart().unwrap();
    for port in &ports {
        assert_eq!(until_readyz(*port, 200).await, "ready");
    }
}

#[tokio::test]
async fn readyz_answers_503_while_redis_has_other_data() {
    const LAYOUT: &str = "tg:layout";
    let fixture = DaemonFixture::new().await;
    let file = fixture.write("own.toml", "[pool.default]\nbuckets = 8\n");
    let flags = ["--config", &file];
    let api = fixture.start(DaemonProgram::Api, &flags).await;
    let pump = fixture.start(DaemonProgram::Pumpd, &flags).await;
    let ports = [api.admin(), api.listen(), pump.admin()];
    let mut redis = RedisControl::connect(&fixture.redis.url()).await;
    for _ in 0..2 {
        for port in ports {
            until_readyz(port, 200).await;
        }
        redis.rename(LAYOUT, "tg:elsewhere").await;
        for port in ports {
            let reason = until_readyz(port, 503).await;
            assert!(
                reason.contains("pool default: Redis was emptied or replaced"),
                "{reason}"
            );
        }
        redis.rename("tg:elsewhere", LAYOUT).await;
    }
    // Another deployment of the same layout.
    for port in ports {
        until_readyz(port, 200).await;
    }
    let stamp = redis.get(LAYOUT).await;
    redis.set(LAYOUT, &format!("{stamp}x")).await;
    for port in ports {
        until_readyz(port, 503).await;
    }
    redis.set(LAYOUT, &stamp).await;
    for port in ports {
        until_readyz(port, 200).await;
    }
    // Probes are frequent, so only changes are logged.
    for daemon in [&api, &pump] {
        let log = daemon.log();
        assert_eq!(
            log.matches("Redis was emptied or replaced").count(),
            3,
            "{log}"
        );
    }
}

#[tokio::test]
async fn readyz_says_why_while_redis_refuses_writes() {
    let fixture = DaemonFixture::new().await;
    let file = fixture.write("own.toml", "[pool.default]\nbuckets = 8\n");
    let flags = ["--config", &file];
    let api = fixture.start(DaemonProgram::Api, &flags).await;
    let pump = fixture.start(DaemonProgram::Pumpd, &flags).await;
    let ports = [api.admin(), api.listen(), pump.admin()];
    let until_all = async |status, reason: &str| {
        for port in ports {
            let message = until_readyz(port, status).await;
            assert!(message.contains(reason), "{message}");
        }
    };
    let mut redis = RedisControl::connect(&fixture.redis.url()).await;
    until_all(200, "ready").await;
    redis.replicate(Some(NO_SERVER)).await;
    until_all(
        503,
        "pool default: redis is unavailable (refuses writes: it is a replica)",
    )
    .await;
    redis.replicate(None).await;
    until_all(200, "ready").await;
    redis.configure("min-replicas-to-write", "1").await;
    until_all(503, "(refuses writes: too few replicas are connected)").await;
    redis.configure("min-replicas-to-write", "0").await;
    until_all(200, "ready").await;
    // Jobs are delivered and deleted while the memory is full.
    redis.limit_memory(Some(0)).await;
    ask(api.listen(), "PUT", "/api/ns/q", &[]).await;
    until_all(200, "ready").await;
}

#[tokio::test]
async fn readyz_answers_503_while_redis_is_paused() {
    let fixture = DaemonFixture::new().await;
    let api = fixture.start(DaemonProgram::Api, &[]).await;
    let pump = fixture.start(DaemonProgram::Pumpd, &[]).await;
    fixture.redis.pause().unwrap();
    for port in [api.admin(), api.listen(), pump.admin()] {
        let message = until_readyz(port, 503).await;
        assert!(
            message.contains("pool default: no answer within"),
            "{message}"
        );
    }
    fixture.redis.resume().unwrap();
    for port in [api.admin(), api.listen(), pump.admin()] {
        until_readyz(port, 200).await;
    }
}

#[tokio::test]
async fn readyz_reports_a_stop_while_requests_are_still_served() {
    let fixture = DaemonFixture::new().await;
    let file = fixture.write(
        "own.toml",
        "drain_delay = \"60s\"\nskip_token_checks = true\n",
    );
    let api = fixture
        .start(DaemonProgram::Api, &["--config", &file])
        .await;
    api.terminate();
    for port in [api.admin(), api.listen()] {
        assert_eq!(until_readyz(port, 503).await, "not ready\nstopping\n");
        get(port, "/healthz").await.expect(200);
    }
    // New clients are served as before, and long polls continue.
    ask(api.listen(), "PUT", "/api/ns/q", &[]).await.expect(201);
    ask(api.listen(), "GET", "/api/ns/q?timeout=5", &[])
        .await
        .expect(200);
    until_said(&api, "stopping after a delay").await;
    // A second request ends the delay.
    sleep(NEXT_REQUEST).await;
    api.terminate();
    assert_eq!(api.wait(LIMIT).await.code(), Some(0));
}

#[tokio::test]
async fn a_stop_ends_after_the_drain_delay() {
    let fixture = DaemonFixture::new().await;
    let file = fixture.write("own.toml", "drain_delay = \"500ms\"\n");
    let api = fixture
        .start(DaemonProgram::Api, &["--config", &file])
        .await;
    let begin = Instant::now();
    assert_eq!(api.stop(LIMIT).await.code(), Some(0));
    assert!(begin.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn other_methods_on_the_health_paths_are_not_found() {
    let fixture = DaemonFixture::new().await;
    let api = fixture.start(DaemonProgram::Api, &[]).await;
    for path in ["/healthz", "/readyz"] {
        for method in ["PUT", "DELETE", "POST"] {
            ask(api.listen(), method, path, &[]).await.expect(404);
            ask(api.admin(), method, path, &[]).await.expect(404);
        }
    }
}

#[tokio::test]
async fn head_is_answered_as_get_without_a_body() {
    let fixture = DaemonFixture::new().await;
    let api = fixture.start(DaemonProgram::Api, &["-sv"]).await;
    let pump = fixture.start(DaemonProgram::Pumpd, &[]).await;
    ask(api.listen(), "PUT", "/api/ns/q", &[]).await.expect(201);
    for (address, path) in [
        (api.listen(), "/healthz"),
        (api.listen(), "/readyz"),
        (api.admin(), "/healthz"),
        (api.admin(), "/readyz"),
        (api.admin(), "/metrics"),
        (api.admin(), "/token/ns"),
        (pump.admin(), "/healthz"),
        (pump.admin(), "/metrics"),
    ] {
        let mut http = RawHttp::connect(address).await;
        // If the first answer had a body, the second one could not be read.
        for _ in 0..2 {
            http.request("HEAD", path, &[], b"").await;
            assert_eq!(http.head().await.unwrap().status, 200, "{path}");
        }
    }
    // The routes of lmstfy have no HEAD, and none of these requests takes the job.
    for path in ["/api/ns/q", "/api/ns/q/size", "/api/ns/q/peek"] {
        let mut http = RawHttp::connect(api.listen()).await;
        http.request("HEAD", path, &[], b"").await;
        assert_eq!(http.head().await.unwrap().status, 404, "{path}");
    }
    ask(api.listen(), "GET", "/api/ns/q", &[]).await.expect(200);
}

#[tokio::test]
async fn a_daemon_that_waits_for_redis_stops_at_once() {
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let flags = [
            "--redis",
            "redis://127.0.0.1:1",
            "--admin-listen",
            "127.0.0.1:0",
        ];
        // Without the signal it would wait for 30 s.
        let ended = stop_when_logged(program, &flags, "waiting for redis", LIMIT).await;
        assert_eq!(ended.code, Some(0), "{}", ended.log);
    }
}

/// A failing liveness probe would end the process before `connect_patience` does.
#[tokio::test]
async fn a_pump_that_waits_for_redis_is_alive_and_not_ready() {
    let mut fixture = DaemonFixture::new().await;
    fixture.redis.kill();
    let admin = free_port().unwrap();
    let address = format!("127.0.0.1:{admin}");
    let log = File::create(fixture.path("log")).unwrap();
    let mut command = Command::new(DaemonProgram::Pumpd.path());
    command.args(["--redis", &fixture.redis.url(), "--admin-listen", &address]);
    let mut running = Running(command.stderr(log).spawn().unwrap());
    until_written(&fixture.path("log"), "waiting for redis").await;
    let admin = address.parse().unwrap();
    assert_eq!(get(admin, "/healthz").await.expect(200).text(), "starting");
    let message = get(admin, "/readyz").await.expect(503).text();
    assert_eq!(message, "not ready\nstart: waiting for redis\n");
    get(admin, "/metrics").await.expect(200);
    fixture.redis.restart().unwrap();
    until_readyz(admin, 200).await;
    assert_eq!(get(admin, "/healthz").await.expect(200).text(), "ok");
    kill_process(Pid::from_child(&running.0), Signal::TERM).unwrap();
    let ended = async || running.0.try_wait().unwrap().ok_or("it runs");
    assert_eq!(eventually("it ends", LIMIT, ended).await.code(), Some(0));
}

/// The default number of buckets.
const BUCKETS: u32 = 256;

/// Its jobs are late until somebody repairs the key, and `/readyz` does not tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_a_bucket_that_fails_although_redis_answers_is_logged() {
    let stack = Stack::builder().start().await;
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    // The index of due queues is a sorted set.
    let index = DeploymentKeys::new(BUCKETS).keys(0).key(&BucketKey::Due);
    control.set_field(&index, "damaged", "1").await;
    stack.pump(0).restart().await;
    eventually("the run is logged", Duration::from_secs(30), async || {
        let log = stack.pump(0).log();
        let line = log
            .lines()
            .find(|line| line.contains("failed to run a bucket"));
        match line {
            Some(line) if line.contains("WRONGTYPE") => Ok(()),
            line => Err(line.unwrap_or("it is not there").to_owned()),
        }
    })
    .await;
}
