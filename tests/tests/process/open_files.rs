//! A limit of open files that is lower than the settings ask for.

use std::process::Command;

use redis::ConnectionLike;
use tidegate_testkit::{Program, RawHttp, eventually};

use crate::fixture::{Fixture, LIMIT, ask};
use crate::spawned::Spawned;

const FILES: usize = 600;
/// More clients than files.
const CLIENTS: usize = FILES + 50;

fn command(files: usize, flags: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let program = Program::Api.path();
    command.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]);
    command.arg(program).args(flags);
    command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    command
}

#[tokio::test]
async fn clients_that_take_all_connections_leave_files_for_the_admin_port_and_redis() {
    let fixture = Fixture::new().await;
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
    // Further ones are refused, so those before have been accepted.
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
    // It connects again.
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
fn a_limit_that_leaves_nothing_for_clients_is_refused() {
    let ended = command(400, &[]).output().unwrap();
    let log = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(log.contains("the limit of open files is 400"), "{log}");
}
