//! An API with several threads, each with the connections that were given to it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tidegate_testkit::{DaemonProgram, RawHttp, Stack};

use crate::fixture::DaemonFixture;

const THREADS: usize = 3;
const CONSUMERS: usize = 12;
/// The API's own limit is 10 s.
const STOP_MAX: Duration = Duration::from_secs(10);

/// tokio ends a thread for blocking work by default when it was idle for this long.
const IDLE_END: Duration = Duration::from_secs(10);

/// The threads whose names begin so, in the order of their ids.
fn threads_named(pid: u32, name: &str) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let tasks = tasks.map(|task| task.unwrap().path());
    let is_named = |task: &PathBuf| {
        let comm = fs::read_to_string(task.join("comm"));
        comm.is_ok_and(|comm| comm.starts_with(name))
    };
    let mut named: Vec<PathBuf> = tasks.filter(is_named).collect();
    named.sort_by_key(|task| {
        task.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .parse::<u32>()
            .unwrap()
    });
    named
}

/// How long each further thread for requests has run, in ns.
fn serving_threads(pid: u32) -> Vec<u64> {
    let run_ns = |task: PathBuf| {
        let statistics = fs::read_to_string(task.join("schedstat")).unwrap();
        statistics.split(' ').next().unwrap().parse().unwrap()
    };
    let serving = threads_named(pid, "serve-").into_iter();
    serving.map(run_ns).collect()
}

/// Consumers wait on all threads, and jobs that are published on any of them reach each consumer once. A stop answers
/// the consumers of all threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_reach_the_consumers_of_all_threads() {
    let setting = format!("threads = {THREADS}");
    let stack = Stack::builder().api_config(&setting).start().await;
    let before = serving_threads(stack.api(0).pid());
    assert_eq!(before.len(), THREADS - 1);
    let queue = stack.queue("q").await;
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let path = format!("{}?timeout=600", queue.path());
    let mut consumers = Vec::new();
    for _ in 0..CONSUMERS {
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        http.request("GET", &path, &token, b"").await;
        consumers.push(http);
    }
    stack.api(0).wait_for_waiting_consumers(CONSUMERS).await;
    let mut published = Vec::new();
    for number in 0..CONSUMERS {
        // A connection of its own, and so the next thread.
        let queue = queue.with_separate_connections();
        published.push(queue.publish(number.to_string()).id().await);
    }
    let mut received = Vec::new();
    for http in &mut consumers {
        let answer = http.answer().await.expect("an answer").expect(200).json();
        received.push(answer["job_id"].as_str().unwrap().to_owned());
        http.request("GET", &path, &token, b"").await;
    }
    published.sort();
    received.sort();
    assert_eq!(received, published);
    for id in &received {
        queue.ack(id).await;
    }
    stack.api(0).wait_for_waiting_consumers(CONSUMERS).await;
    // A thread without connections sleeps.
    let after = serving_threads(stack.api(0).pid());
    let mut both = before.iter().zip(&after);
    assert!(
        both.all(|(before, after)| before < after),
        "{before:?}, {after:?}"
    );
    stack.api(0).terminate();
    for http in &mut consumers {
        http.answer().await.expect("an answer").expect(404);
    }
    let status = stack.api(0).wait(STOP_MAX).await;
    assert_eq!(status.code(), Some(0));
    stack.api(0).restart().await;
    assert_eq!(queue.with_separate_connections().size().await, 0);
    stack.finish().await;
}

/// tokio panics if a runtime without a thread for blocking work gets some and cannot start one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_thread_keeps_one_for_blocking_work() {
    let setting = format!("threads = {THREADS}");
    let stack = Stack::builder().api_config(&setting).start().await;
    tokio::time::sleep(IDLE_END + Duration::from_secs(2)).await;
    for (pid, runtime) in [
        (stack.api(0).pid(), "main"),
        (stack.api(0).pid(), "serve-1"),
        (stack.api(0).pid(), "serve-2"),
        (stack.pump(0).pid(), "main"),
    ] {
        let name = format!("block-{runtime}");
        assert_ne!(threads_named(pid, &name).len(), 0, "{name}");
    }
    stack.finish().await;
}

#[tokio::test]
async fn more_threads_than_the_system_has_room_for_are_an_error() {
    let fixture = DaemonFixture::new().await;
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 1500000 && exec timeout 30 \"$0\" \"$@\""]);
    command.arg(DaemonProgram::Api.path());
    command.args(["--redis", &fixture.redis.url()]);
    command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let ended = command.env("TIDEGATE_THREADS", "1024").output().unwrap();
    let log = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(log.contains("set it to a lower number"), "{log}");
}
