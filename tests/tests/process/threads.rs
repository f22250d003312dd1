//! An API with several threads, each with the connections that were given to it.

use std::fs;
use std::time::Duration;

use tidegate_testkit::{RawHttp, Stack};

const THREADS: usize = 3;
const CONSUMERS: usize = 12;
/// The API's own limit is 10 s.
const STOP_MAX: Duration = Duration::from_secs(10);

/// How long each further thread for requests has run, in ns.
fn serving_threads(pid: u32) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |task: &fs::DirEntry, file| fs::read_to_string(task.path().join(file)).unwrap();
    let tasks = tasks.map(Result::unwrap);
    let serving = tasks.filter(|task| read(task, "comm").starts_with("serve-"));
    let mut run_ns: Vec<(u64, u64)> = serving
        .map(|task| {
            let statistics = read(&task, "schedstat");
            let run_ns = statistics.split(' ').next().unwrap().parse().unwrap();
            let id = task.file_name().to_str().unwrap().parse().unwrap();
            (id, run_ns)
        })
        .collect();
    run_ns.sort_unstable();
    run_ns.into_iter().map(|(_, run_ns)| run_ns).collect()
}

/// Consumers wait on all threads, and jobs that are published on any of them reach each consumer once. A stop answers the
/// consumers of all threads.
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
