//! A limit on open files that is lower than the settings require.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use redis::ConnectionLike;
use tidegate_testkit::{DaemonProgram, RawHttp, eventually};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::fixture::{DaemonFixture, LIMIT, ask, until_written};
use crate::service_manager::Running;
use crate::spawned::Spawned;

const FILES: usize = 600;
/// More clients than files.
const CLIENTS: usize = FILES + 50;

fn command(files: usize, flags: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let program = DaemonProgram::Api.path();
    command.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]);
    command.arg(program).args(flags);
    command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    command
}

#[tokio::test]
async fn clients_that_take_all_connections_leave_files_for_the_admin_port_and_redis() {
    let fixture = DaemonFixture::new().await;
    let url = fixture.redis.url();
    let api = Spawned::start(command(FILES, &["-sv", "--redis", &url]));
    assert!(
        api.log.contains("connections_max is lowered"),
        "{}",
        api.log
    );
    let mut early = RawHttp::connect(api.listen).await;
    early.request("PUT", "/api/ns/q", &[], b"x").await;
    early.answer().await.unwrap().expect(201);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(RawHttp::connect(api.listen).await);
    }
    // A refused client shows that those before it were accepted.
    eventually("a client is refused", LIMIT, async || {
        let page = ask(api.admin, "GET", "/metrics", &[]).await.expect(200);
        let refused = "tidegate_http_connections_refused_total{listener=\"public\"}";
        page.text().contains(refused).then_some(()).ok_or("none")
    })
    .await;
    let mut redis = redis::Client::open(url).unwrap();
    for kind in ["normal", "pubsub"] {
        let mut kill = redis::cmd("CLIENT");
        redis
            .req_command(kill.arg("KILL").arg("TYPE").arg(kind))
            .unwrap();
    }
    // The API reconnects to Redis.
    eventually("a job is published", LIMIT, async || {
        early.request("PUT", "/api/ns/q", &[], b"x").await;
        match early.answer().await.unwrap().status {
            201 => Ok(()),
            status => Err(status),
        }
    })
    .await;
    ask(api.admin, "GET", "/readyz", &[]).await.expect(200);
    ask(api.admin, "GET", "/info", &[]).await.expect(200);
    ask(api.admin, "POST", "/token/ns?description=x", &[])
        .await
        .expect(201);
    drop(clients);
}

#[test]
fn a_limit_that_is_too_low_for_clients_is_refused() {
    let ended = command(400, &[]).output().unwrap();
    let log = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(log.contains("the limit of open files is 400"), "{log}");
}

const PUMP_FILES: u64 = 256;
/// More than there are files, and no more than fit in the accept queue of the port.
const SILENT_CLIENTS: usize = 350;

#[tokio::test]
async fn clients_of_the_admin_port_leave_a_pump_files_for_redis() {
    let fixture = DaemonFixture::new().await;
    let pump = fixture.start(DaemonProgram::Pumpd, &[]).await;
    pump.set_files_max(Some(PUMP_FILES));
    pump.restart().await;
    let mut clients = Vec::new();
    for _ in 0..SILENT_CLIENTS {
        clients.push(TcpStream::connect(pump.admin()).await.unwrap());
    }
    let mut redis = redis::Client::open(fixture.redis.url()).unwrap();
    // Repeated, since the pump may reconnect before clients take the files of the closed connections.
    for _ in 0..5 {
        for kind in ["normal", "pubsub"] {
            let mut kill = redis::cmd("CLIENT");
            redis
                .req_command(kill.arg("KILL").arg("TYPE").arg(kind))
                .unwrap();
        }
        sleep(Duration::from_millis(200)).await;
    }
    let api = fixture.start(DaemonProgram::Api, &["-sv"]).await;
    let (delayed, consumed) = ("/api/ns/q?delay=1", "/api/ns/q?timeout=20");
    ask(api.listen(), "PUT", delayed, &[]).await.expect(201);
    ask(api.listen(), "GET", consumed, &[]).await.expect(200);
    ask(pump.admin(), "GET", "/healthz", &[]).await.expect(200);
    assert!(pump.log().contains("connections_max is lowered"));
    drop(clients);
}

#[tokio::test]
async fn the_soft_limit_of_a_pump_is_raised_to_the_hard_one() {
    let fixture = DaemonFixture::new().await;
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -Sn 256 && ulimit -Hn 700 && exec \"$0\" \"$@\"",
    ]);
    command.arg(DaemonProgram::Pumpd.path());
    command.args(["--redis", &fixture.redis.url()]);
    command.args(["--admin-listen", "127.0.0.1:0"]);
    let log = File::create(fixture.path("log")).unwrap();
    let running = Running(command.stderr(log).spawn().unwrap());
    until_written(&fixture.path("log"), " ready ").await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.0.id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = line.unwrap().split_whitespace().nth(3).unwrap();
    assert_eq!(soft, "700");
}
