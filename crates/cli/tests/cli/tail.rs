//! `tidegate tail`: which lines it prints, and how it ends.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack, eventually};
use tokio::time::timeout;

use super::command_line::CommandLine;
use super::running::{RunningCommand, until_full};
use super::{LIMIT, SERVER};

fn tail(cli: &CommandLine, arguments: &[&str]) -> RunningCommand {
    let arguments = [&["tail", "t", "--interval", "20ms"], arguments].concat();
    RunningCommand::start(cli.command(&arguments))
}

#[tokio::test]
async fn new_jobs_and_new_states_are_printed_once() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "tail").await;
    let native = NativeClient::new(stack.api(0), cli.namespace).await;
    cli.out(&["publish", "t", "{}", "--key", "old", "--delay", "1h"]);
    let mut all = tail(&cli, &["--all", "--json"]);
    let line: Value = serde_json::from_str(&all.line().await.unwrap()).unwrap();
    assert_eq!(
        (&line["key"], &line["state"]),
        (&json!("old"), &json!("delayed"))
    );

    let mut new = tail(&cli, &[]);
    // Until its first look is over, jobs are taken for old ones.
    let first = async {
        for number in 0.. {
            cli.out(&[
                "publish",
                "t",
                "{}",
                "--key",
                &format!("new-{number}"),
                "--delay",
                "1h",
            ]);
            if let Some(line) = new.printed().first() {
                return line.clone();
            }
        }
        unreachable!("the numbers do not end")
    };
    let first = first.await;
    assert!(
        first.contains("  delayed  ") && first.contains("  new-"),
        "{first}"
    );

    cli.out(&["publish", "t", "{}", "--key", "fails"]);
    let lines = new.lines_until("  ready    ").await;
    assert!(lines.last().unwrap().ends_with("  fails"), "{lines:?}");
    let job = native.reserve("t", 1).await.remove(0);
    new.lines_until("  leased   ").await;
    let failed = json!({"lease": job["lease"], "error": "smtp: \u{1b}[2J550", "dead": true});
    native.settle("fail", &json!({"leases": [failed]})).await;
    let mut lines = new.lines_until("  dead     ").await;
    let dead = lines.pop().unwrap();
    assert!(dead.ends_with("  fails  smtp: \\u001b[2J550"), "{dead}");
    assert!(
        !lines.iter().any(|line| line.contains("  old")),
        "{lines:?}"
    );
    all.lines_until("\"state\":\"dead\"").await;
    cli.out(&["publish", "t", "{}", "--key", "last"]);
    // Nothing was printed twice.
    assert_eq!(new.lines_until("last").await.len(), 1);

    new.signal("INT");
    all.signal("TERM");
    assert_eq!((new.end(), all.end()), (Some(0), Some(0)));
}

#[tokio::test]
async fn only_jobs_that_match_are_printed_and_errors_end_it() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "filtered").await;
    let mut red = tail(&cli, &["--all", "--attr", "colour=red", "--state", "ready"]);
    for (key, colour) in [("a", "blue"), ("b", "red"), ("c", "blue"), ("d", "red")] {
        cli.out(&[
            "publish",
            "t",
            "{}",
            "--key",
            key,
            "--attr",
            &format!("colour={colour}"),
        ]);
    }
    let lines = red.lines_until("  d").await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].ends_with("  b"), "{lines:?}");
    // The reader of the pipe is gone.
    let mut command = cli.command(&["tail", "t", "--all", "--interval", "20ms"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let native = NativeClient::with_scopes(stack.api(0), cli.namespace, &["publish"]).await;
    let publisher = cli.with_key(native.key());
    assert!(publisher.error(1, &["tail", "t"]).contains("scope"));
    let unreachable = CommandLine::unconnected("http://127.0.0.1:0", "k-of-no-server");
    unreachable.error(3, &["tail", "t"]);
}

/// The lines of the jobs have more bytes than a pipe holds.
#[tokio::test]
async fn a_signal_ends_it_although_the_reader_of_its_output_stalls() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "stalled").await;
    let native = NativeClient::new(stack.api(0), cli.namespace).await;
    let jobs = json!({"jobs": vec![json!({"payload": 1, "delay": "1h"}); 1000]});
    let published = native.call("POST", "/queues/t/jobs/batch", &jobs).await;
    published.expect(200);
    for signal in ["TERM", "INT"] {
        let mut child = cli
            .command(&["tail", "t", "--all", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let unread = child.stdout.take().unwrap();
        until_full(&unread).await;
        let pid = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.unwrap().success());
        let ended = eventually("it ends", LIMIT, async || {
            child.try_wait().unwrap().ok_or("it runs")
        });
        assert_eq!(ended.await.code(), Some(0));
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_named_at_once_and_waited_for() {
    let stack = Stack::builder().start().await;
    let cli = CommandLine::connected(&stack, "tail-gone").await;
    cli.out(&["publish", "t", "{}", "--key", "first"]);
    let mut command = cli.command(&["tail", "t", "--all", "--interval", "20ms"]);
    command.stderr(Stdio::piped());
    let (mut running, errors) = RunningCommand::start_with_errors(command);
    running.lines_until("first").await;
    stack.api(0).kill();
    let first = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(errors).read_line(&mut line).unwrap();
        line
    });
    let line = timeout(Duration::from_secs(5), first).await;
    let line = line.expect("no repetitions are waited for").unwrap();
    assert!(line.ends_with("; retrying\n"), "{line}");
    stack.api(0).restart().await;
    cli.out(&["publish", "t", "{}", "--key", "second"]);
    running.lines_until("second").await;
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
    stack.finish().await;
}
