//! `tidegate bench`: its output, and that it leaves nothing behind.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack, eventually, print_figure};

use super::command_line::CommandLine;
use super::running::RunningCommand;
use super::{LIMIT, SERVER};

/// More than the two minutes within which a queue without jobs is forgotten. A purge forgets it at once, unless its
/// bucket has many jobs of other queues that are due later: other tests may have stored such jobs.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(240);

/// Waits until the namespace has a queue.
async fn until_listed(cli: &CommandLine) {
    eventually("the queue is listed", LIMIT, async || {
        let queues = cli.json(&["queue", "ls"]);
        if queues == json!([]) {
            Err(queues)
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test]
async fn rates_and_latencies_are_measured_and_nothing_is_left() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "bench").await;
    for batch in ["1", "10"] {
        let arguments = [
            "bench",
            "--time",
            "1s",
            "--connections",
            "4",
            "--batch",
            batch,
        ];
        let report = cli.json(&arguments);
        print_figure(&report.to_string());
        let published = report["published"].as_u64().unwrap();
        assert!(published > 0 && report["consumed"] == published, "{report}");
        assert_eq!((&report["left"], &report["errors"]), (&json!(0), &json!(0)));
        for latency in ["publish", "ack", "delivery"] {
            let of = |name: &str| report["latency_ms"][latency][name].as_f64().unwrap();
            assert!(of("p50") > 0.0 && of("p50") <= of("p99"), "{report}");
            assert!(of("p99") <= of("max"), "{report}");
        }
        assert!(
            report["published_per_second"].as_f64().unwrap() > 0.0,
            "{report}"
        );
        let queue = report["queue"].as_str().unwrap();
        assert!(queue.starts_with("bench-"), "{report}");
        eventually("nothing is left", FORGOTTEN_WITHIN, async || {
            let queues = cli.json(&["queue", "ls"]);
            if queues == json!([]) {
                Ok(())
            } else {
                Err(queues)
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_queue_with_jobs_and_a_key_without_scopes_are_refused() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "used").await;
    cli.out(&["publish", "used", "{}", "--delay", "1h"]);
    let bench = |cli: &CommandLine, queue: &str| {
        cli.error(
            1,
            &[
                "bench",
                "--time",
                "10s",
                "--connections",
                "2",
                "--queue",
                queue,
            ],
        )
    };
    assert!(bench(&cli, "used").contains("has 1 jobs, which would be taken"));
    assert_eq!(cli.json(&["queue", "show", "used"])["jobs"]["delayed"], 1);
    // It ends with the first error, long before the time is over.
    let native = NativeClient::with_scopes(stack.api(0), cli.namespace, &["read", "admin"]).await;
    let reader = cli.with_key(native.key());
    assert!(bench(&reader, "other").contains("scope"));
    assert!(cli.error(2, &["bench", "--time", "1h"]).contains("10m"));
    assert!(cli.error(2, &["bench", "--batch", "257"]).contains("256"));
}

#[tokio::test]
async fn a_signal_ends_it_early_and_the_queue_is_cleaned() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "early").await;
    let command = cli.command(&["bench", "--time", "10m", "--connections", "2"]);
    let mut bench = RunningCommand::start(command);
    let queues = async || -> Value { cli.json(&["queue", "ls"]) };
    until_listed(&cli).await;
    bench.signal("INT");
    let lines = bench.lines_until("ack ").await;
    assert!(
        lines.iter().any(|line| line.starts_with("published ")),
        "{lines:?}"
    );
    assert_eq!(bench.end(), Some(0));
    eventually("the queue is deleted", FORGOTTEN_WITHIN, async || {
        let queues = queues().await;
        match queues == json!([]) {
            true => Ok(()),
            false => Err(queues),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_end_it_while_the_server_does_not_answer() {
    let stack = Stack::builder().start().await;
    let cli = CommandLine::connected(&stack, "frozen").await;
    let command = cli.command(&["bench", "--time", "10m", "--connections", "2"]);
    let mut bench = RunningCommand::start(command);
    until_listed(&cli).await;
    stack.api(0).pause();
    // One for each wait: for the load, the last jobs, requests in flight, and the deletion.
    let exit_code = eventually("it has ended", LIMIT, async || {
        bench.signal("INT");
        bench.exit_code().ok_or("it runs")
    })
    .await;
    assert_eq!(exit_code, 1);
    stack.api(0).resume();
}
