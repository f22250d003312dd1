//! An API with several threads, each with the connections that were given to it.

use std::fs;
use std::time::Duration;

use tidegate_testkit::{RawHttp, Stack};

const THREADS: usize = 3;
const CONSUMERS: usize = 12;
/// The API's own limit is 10 s.
const STOP_MAX: Duration = Duration::from_secs(10);

/// The names of the threads of a process.
fn thread_names(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap();
    tasks
        .map(|task| name(task.unwrap()).trim().to_owned())
        .collect()
}

/// Consumers wait on all threads, and jobs that are published on any of them reach each consumer once. A stop answers the
/// consumers of all threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_reach_the_consumers_of_all_threads() {
    let setting = format!("threads = {THREADS}");
    let stack = Stack::builder().api_config(&setting).start().await;
    let names = thread_names(stack.api(0).pid());
    for number in 1..THREADS {
        let name = format!("serve-{number}");
        assert!(names.contains(&name), "{names:?}");
    }
    let queue = stack.queue("q").await;
    let token = [("X-Token".to_owned(), queue.token().to_owned())];
    let path = format!("{}?timeout=60", queue.path());
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
