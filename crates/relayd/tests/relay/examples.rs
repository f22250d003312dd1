//! The files in `examples/relay`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tidegate_testkit::{DaemonProgram, free_port, run_until_exit};

use crate::fixture::{LIMIT, QUEUE, RelayDaemon, RelayedQueue, SERVER};

/// Replaced by the port of the receiver.
const RECEIVER: &str = "127.0.0.1:8090";

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/relay"))
}

#[tokio::test]
async fn each_file_of_settings_is_valid() {
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        count += 1;
        let arguments = ["--print-config", "--config", path.to_str().unwrap()];
        let exit = run_until_exit(DaemonProgram::Relayd, &arguments, LIMIT).await;
        // Secrets that belong into the environment are missing.
        let is_missing =
            exit.log.contains("api_key is missing") || exit.log.contains("token is missing");
        assert!(exit.code == Some(0) || is_missing, "{path:?}: {}", exit.log);
    }
    assert_eq!(count, 4);
}

/// The receiver in Python. Dropping it kills it.
struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Receiver {
    fn start(port: u16, secret: &str) -> Self {
        let mut command = Command::new("python3");
        command
            .arg(folder().join("webhook_receiver.py"))
            .args([&port.to_string(), secret])
            .stdout(Stdio::piped());
        let started = command.spawn();
        Self(started.unwrap_or_else(|error| {
            panic!("this test needs the program python3 (Debian: apt-get install python3): {error}")
        }))
    }

    /// The next line that it prints.
    async fn line(&mut self) -> String {
        let mut output = BufReader::new(self.0.stdout.take().unwrap());
        let (output, line) = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            (output, line)
        })
        .await
        .unwrap();
        self.0.stdout = Some(output.into_inner());
        line
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receiver_in_python_takes_signed_jobs_only() {
    let stack = SERVER.acquire().await;
    let queue = RelayedQueue::new(&stack, "receiver").await;
    let port = free_port().unwrap();
    let settings = std::fs::read_to_string(folder().join("webhook.toml")).unwrap();
    let sink = settings.split_once("[relay.orders.sink]").unwrap().1;
    let sink = sink.replace(RECEIVER, &format!("127.0.0.1:{port}"));
    let sink = format!("[relay.r.sink]{sink}");
    let secret = sink.split("secret = \"").nth(1).unwrap();
    let secret = secret.split('"').next().unwrap();
    let mut receiver = Receiver::start(port, secret);
    let source = queue.as_end("source", QUEUE);
    let relay = RelayDaemon::start(&[&source, &sink]).await;
    let id = queue.publish(7..8).await.pop_first().unwrap();
    assert_eq!(receiver.line().await, format!("{id} 7\n"));
    queue.drained().await;
    relay.daemon.stop(LIMIT).await;
    let sink = sink.replace(secret, "whsec_d3Jvbmc=");
    let relay = RelayDaemon::start(&[&source, &sink]).await;
    queue.publish(8..9).await;
    relay
        .status_has("a wrong signature is refused", |status| {
            status["rejected"] == 1
        })
        .await;
    let status = relay.status().await;
    assert!(
        status["last_error"]["text"].to_string().contains("401"),
        "{status}"
    );
}
