//! The cold tier as the command line shows it.

use serde_json::Value;
use tidegate_testkit::{NativeClient, RedisOptions, Stack, eventually};

use super::LIMIT;
use super::command_line::CommandLine;

#[tokio::test]
async fn the_cold_tier_and_its_failures_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("cold");
    let settings = format!(
        "[pool.default]\ncold_url = \"file://{}\"\ncold_interval = \"1s\"\ncold_keep = \"1m\"\n",
        objects.display()
    );
    let redis = RedisOptions::new().setting("maxmemory", "1gb");
    let stack = Stack::builder()
        .redis(redis)
        .api_config(&settings)
        .pump_config(&settings)
        .start()
        .await;
    let cli = CommandLine::connected(&stack, "cold").await;
    let admin = stack.api(0).admin_url();
    let pump = format!("http://{}", stack.pump(0).admin());
    let status = || cli.json(&["cold", "status", "--admin", &admin])[0].clone();
    assert_eq!(status()["counted_at"], Value::Null);

    let client = NativeClient::new(stack.api(0), "cold").await;
    let payload =
        "a payload that is too long to be compressed, or too short: 0123456789 abcdefghij";
    client
        .publish("q", "key=k&delay=2h", payload)
        .await
        .expect(201);
    eventually("the payload is cold", LIMIT, async || {
        let shown = status();
        match shown["frozen_payloads"].as_u64() {
            Some(1) => Ok(()),
            _ => Err(shown),
        }
    })
    .await;
    assert_eq!(status()["problem"], Value::Null);
    let doctor = cli.out(&["doctor", "--admin", &admin]);
    assert!(
        doctor.contains("payloads that are there only: 1"),
        "{doctor}"
    );
    let explain = || cli.json(&["job", "explain", "q", "key:k"]);
    let explained = explain();
    assert_eq!(explained["cause"], "not_due", "{explained}");
    assert!(explained.to_string().contains("is in the cold tier."));

    std::fs::rename(&objects, folder.path().join("away")).unwrap();
    let shown = status();
    let problem = shown["problem"].as_str().unwrap();
    assert!(problem.contains("cold_url"), "{problem}");
    let doctor = cli.command(&["doctor", "--admin", &admin]);
    let doctor = { doctor }.output().unwrap();
    assert_eq!(doctor.status.code(), Some(1));
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    assert!(doctor.contains(problem), "{doctor}");
    client
        .send("POST", "/queues/q/jobs/key:k/promote", &[], b"")
        .await
        .expect(200);
    let explained = explain();
    assert_eq!(explained["cause"], "payload_unavailable", "{explained}");
    eventually("the pump reports it", LIMIT, async || {
        let report = cli.command(&["doctor", "--pump", &pump]).output().unwrap();
        let report = String::from_utf8(report.stdout).unwrap();
        match report.contains("tasks of the cold tier have failed") {
            true => Ok(()),
            false => Err(report),
        }
    })
    .await;
    std::fs::rename(folder.path().join("away"), &objects).unwrap();
    stack.finish().await;
}
