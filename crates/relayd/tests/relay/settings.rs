//! Settings of relays, as operators see them.

use tidegate_testkit::{DaemonProgram, RawHttp, run_until_exit};

use crate::fixture::{LIMIT, RelayDaemon};

const SOURCE: &str = "[relay.r.source]\nkind = \"tidegate\"\nurl = \"http://localhost:1\"\nnamespace = \"n\"\n\
    queue = \"q\"\napi_key = \"hunter2\"\n";

#[tokio::test]
async fn a_relay_that_cannot_work_is_refused_at_the_start_and_secrets_are_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relayd.toml");
    let run = async |sink: &str, arguments: &[&str]| {
        std::fs::write(&file, format!("{SOURCE}[relay.r.sink]\n{sink}\n")).unwrap();
        let arguments = [&["--config", file.to_str().unwrap()], arguments].concat();
        run_until_exit(DaemonProgram::Relayd, &arguments, LIMIT).await
    };
    let exit = run(
        "kind = \"webhook\"\nurl = \"https://169.254.169.254/latest\"",
        &[],
    )
    .await;
    assert_eq!(exit.code, Some(1));
    assert!(
        exit.log
            .contains("relay.r.sink.url: the address 169.254.169.254 is not public"),
        "{}",
        exit.log
    );
    let exit = run(
        "kind = \"nats\"\nurl = \"nats://a:1\"\nsubject = \"s\"\ntoken = \"hunter2\"",
        &["--print-config"],
    )
    .await;
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    assert!(
        exit.log.contains("<hidden>") && !exit.log.contains("hunter2"),
        "{}",
        exit.log
    );
}

#[tokio::test]
async fn a_paused_relay_is_not_started() {
    let sink = "[relay.r.sink]\nkind = \"webhook\"\nurl = \"https://a.example\"\n";
    let relay = RelayDaemon::start(&["[relay.r]\npaused = true\n", SOURCE, sink]).await;
    assert!(relay.status().await.is_null());
    relay.daemon.stop(LIMIT).await;
}

#[tokio::test]
async fn a_daemon_without_relays_serves_its_admin_port() {
    let relay = RelayDaemon::start(&[]).await;
    assert!(relay.status().await.is_null());
    let mut http = RawHttp::connect(relay.daemon.admin()).await;
    http.request("GET", "/readyz", &[], b"").await;
    http.answer().await.unwrap().expect(200);
    relay.daemon.stop(LIMIT).await;
}
