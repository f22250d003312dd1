//! The worker that the README shows, run as it is written.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{FaultProxy, NativeClient, Stack, eventually, seed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const README: &str = include_str!("../../../README.md");

fn worker() -> &'static str {
    let begin = README.find("```python\n").expect("a worker") + "```python\n".len();
    let program = &README[begin..];
    &program[..program.find("```").expect("the end of the worker")]
}

/// Answers one request with the beginning of an answer.
async fn answer_in_part(listener: TcpListener) {
    let (mut connection, _) = listener.accept().await.expect("a connection");
    // The request comes in two parts. A close resets the connection if bytes are unread, so both are read.
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        let read = connection.read_buf(&mut request).await;
        assert!(read.expect("a request") > 0, "the request breaks off");
    }
    let beginning = b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n{\"jobs\":[";
    connection.write_all(beginning).await.expect("it is sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_of_the_readme_works_fails_and_stops() {
    assert!(worker().lines().count() <= 40);
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "demo").await;
    // The first answer ends too early.
    let broken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(broken.local_addr().unwrap(), seed()).await;
    let program = worker().replace("127.0.0.1:7777", &proxy.address().to_string());
    let mut child = Command::new("python3")
        .args(["-c", &program])
        .env("TG_KEY", client.key())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    answer_in_part(broken).await;
    proxy.lead_to(stack.api(0).listen());
    // As `curl -d` sends it.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let path = "/queues/close-unpaid/jobs";
    let good = client.send("POST", path, &form, br#"{"order":17}"#).await;
    good.expect(201);
    // A payload that is not JSON is payload_base64.
    let bad = client
        .send("POST", &format!("{path}?max_attempts=1"), &form, b"x")
        .await;
    let bad = bad.expect(201).json()["id"].as_str().unwrap().to_owned();
    let dead = format!("/queues/close-unpaid/jobs/{bad}");
    let dead = eventually(
        "the job is dead",
        Duration::from_secs(30),
        async || match client.get(&dead).await.expect(200).json() {
            job if job["state"] == "dead" => Ok(job),
            job => Err(job),
        },
    );
    assert_eq!(dead.await["history"][0]["error"], "KeyError('payload')");
    let stopped = Command::new("kill").arg(child.id().to_string()).status();
    assert!(stopped.unwrap().success());
    let stopped = eventually("the worker stops", Duration::from_secs(30), async || {
        child.try_wait().unwrap().ok_or("it runs")
    });
    assert!(stopped.await.success());
    let output = child.wait_with_output().unwrap();
    let (printed, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(printed, "{'order': 17}\n");
    assert!(
        errors.contains("IncompleteRead") && errors.contains("KeyError"),
        "{errors}"
    );
    let held = client.get("/queues/close-unpaid").await.expect(200).json();
    assert_eq!(
        held["jobs"],
        json!({"delayed": 0, "ready": 0, "leased": 0, "dead": 1, "done": 0})
    );
    stack.finish().await;
}
