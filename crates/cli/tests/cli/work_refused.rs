//! `tidegate work`: refused arguments, its messages, and the order of its actions.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_testkit::eventually;

use super::command_line::CommandLine;
use super::{LIMIT, SERVER};

/// No job pays for a mistake in the arguments.
#[tokio::test]
async fn arguments_that_would_fail_each_job_are_refused_at_the_start() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "refused").await;
    cli.out(&["publish", "q", "{}", "--key", "k"]);
    let error = cli.error(2, &["work", "q", "--result", "text", "--", "true"]);
    assert!(error.contains("--result"), "{error}");
    for program in ["no-such-program-17", "/no/such/program", "/tmp"] {
        let error = cli.error(2, &["work", "q", "--", program]);
        assert!(error.contains(program), "{error}");
    }
    let error = cli.error(2, &["publish", "q", "{}", "--delay", "30"]);
    assert!(error.contains("write 30s or 30ms"), "{error}");
    let error = cli.error(2, &["work", "q", "--concurrency", "0", "--", "true"]);
    assert!(error.contains("--concurrency"), "{error}");
    let job = cli.json(&["job", "show", "q", "key:k"]);
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&"ready".into(), &0.into())
    );
    for command in ["tail", "top"] {
        let mut arguments = vec![command, "--interval", "19ms"];
        arguments.extend((command == "tail").then_some("q"));
        assert!(cli.error(2, &arguments).contains("20ms"));
    }
}

/// Where programs are looked for then is up to the system.
#[tokio::test]
async fn a_program_is_not_refused_because_path_is_not_set() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "no-path").await;
    cli.out(&["publish", "q", "{}", "--key", "k"]);
    let mut worker = cli
        .command(&["work", "q", "--", "true"])
        .env_remove("PATH")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the program has run", LIMIT, async || {
        let shown = cli.run_with(&["job", "show", "q", "key:k"], "");
        match shown.error.contains("Job not found") {
            true => Ok(()),
            false => Err(shown.out + &shown.error),
        }
    })
    .await;
    worker.kill().unwrap();
    worker.wait().unwrap();
}

#[tokio::test]
async fn queues_are_served_in_the_order_of_the_arguments() {
    const JOBS: usize = 10;
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "order").await;
    for _ in 0..JOBS {
        for queue in ["bulk", "urgent"] {
            cli.out(&["publish", queue, "{}"]);
        }
    }
    let script = "echo $TG_JOB_QUEUE";
    let mut worker = cli
        .command(&["work", "urgent", "bulk", "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(worker.stdout.take().unwrap()).lines();
    let lines = tokio::task::spawn_blocking(move || {
        let lines = lines.take(2 * JOBS).map(Result::unwrap);
        lines.collect::<Vec<String>>()
    });
    let lines = tokio::time::timeout(LIMIT, lines).await.unwrap().unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();
    let (urgent, bulk) = lines.split_at(JOBS);
    assert!(urgent.iter().all(|queue| queue == "urgent"), "{lines:?}");
    assert!(bulk.iter().all(|queue| queue == "bulk"), "{lines:?}");
}

#[tokio::test]
async fn a_worker_says_that_it_cannot_reach_the_server() {
    let unreachable = CommandLine::unconnected("http://127.0.0.1:1", "k-of-no-server");
    let mut worker = unreachable
        .command(&["work", "q", "--", "true"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(worker.stderr.take().unwrap());
    let first = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        line
    });
    let line = tokio::time::timeout(LIMIT, first).await.unwrap().unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(line.contains("WARN") && line.contains("reserve"), "{line}");
}

#[tokio::test]
async fn a_second_signal_ends_the_worker_and_its_programs_at_once() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "twice").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = r#"trap "" TERM; echo $$ > "$1.new"; mv "$1.new" "$1"; while :; do sleep 1; done"#;
    let path = file.to_str().unwrap();
    let program = [
        "work", "q", "--grace", "10m", "--", "sh", "-c", script, "sh", path,
    ];
    let mut worker = cli.command(&program).stdin(Stdio::null()).spawn().unwrap();
    cli.out(&["publish", "q", "{}"]);
    let pid = eventually("the program runs", LIMIT, async || {
        std::fs::read_to_string(&file).map_err(|error| error.to_string())
    })
    .await;
    let id = worker.id().to_string();
    for _ in 0..2 {
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.unwrap().success());
        // Signals within a second of the first one are the same request.
        tokio::time::sleep(Duration::from_millis(1200)).await;
    }
    let ended = eventually("the worker ends", LIMIT, async || {
        worker.try_wait().unwrap().ok_or("it runs")
    });
    assert_eq!(ended.await.code(), Some(1));
    let process = format!("/proc/{}/stat", pid.trim());
    eventually("the program ends", LIMIT, async || {
        let stat = std::fs::read_to_string(&process).unwrap_or_default();
        let is_running = !stat.is_empty() && !stat.contains(") Z ");
        if is_running { Err(stat) } else { Ok(()) }
    })
    .await;
}

/// `/dev/zero` does not end.
#[test]
fn a_job_that_no_server_takes_is_refused_before_it_is_sent() {
    let cli = CommandLine::unconnected("http://127.0.0.1:1", "k-of-no-server");
    let publish = ["publish", "q", "{}", "--attr", "a=1", "--attr", "a=2"];
    let error = cli.error(2, &publish);
    assert!(error.contains("--attr a is given twice"), "{error}");
    let error = cli.error(2, &["publish", "q", "--file", "/dev/zero"]);
    assert!(error.contains("more than 8 MiB"), "{error}");
    let mut command = cli.command(&["publish", "q"]);
    command.stdin(std::fs::File::open("/dev/zero").unwrap());
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("more than 8 MiB"), "{error}");
}
