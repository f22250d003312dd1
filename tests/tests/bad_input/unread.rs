//! Answers that clients do not read.

use std::collections::HashSet;
use std::time::Duration;

use tidegate_testkit::{Answer, RawHttp, ReceivedJob, Stack, eventually, print_figure};

const MIB: u64 = 1024 * 1024;
const SOON: Duration = Duration::from_secs(20);

const CLIENTS: usize = 16;
const COUNT: u64 = 8;
const JOBS: usize = CLIENTS * COUNT as usize;
const BODY_BYTES: usize = 512 * 1024;

/// Without a bound the answers are 85 MiB.
const CONFIG: &str = "requests.unread_bytes_max = 8388608\nconnections.write_timeout = \"5m\"";
const UNREAD_MAX: f64 = 8.0 * 1024.0 * 1024.0;

/// No other test may use the server, since its memory is shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_are_bounded_and_jobs_that_do_not_fit_lose_no_attempt() {
    let stack = Stack::builder().api_config(CONFIG).start().await;
    let api = stack.api(0);
    let queue = stack.queue("q").await;
    for _ in 0..JOBS {
        queue.publish(vec![b'x'; BODY_BYTES]).tries(1).id().await;
    }
    let unread = async || {
        let name = "tidegate_http_in_flight_bytes";
        api.metric_with_label(name, "what=\"answer\"").await
    };
    assert_eq!(unread().await, 0.0);
    let before = api.resident_bytes();
    let headers = [("X-Token", queue.token()), ("Connection", "close")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let target = format!("{}?count={COUNT}&ttr=300", queue.path());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut http = RawHttp::connect_with_small_buffer(api.listen()).await;
        http.request("GET", &target, &headers, b"").await;
        assert_eq!(http.head().await.unwrap().status, 200);
        clients.push(http);
        let bytes = unread().await;
        assert!(bytes > 0.0 && bytes <= UNREAD_MAX, "{bytes}");
    }
    let peak = api.resident_bytes_peak() - before;
    print_figure(&format!(
        "{CLIENTS} answers of up to {COUNT} jobs of {BODY_BYTES} bytes that are not read: {} MiB at the peak",
        peak / MIB
    ));
    let over_budget = "tidegate_http_over_budget_total";
    assert!(api.metric_with_label(over_budget, "what=\"answer\"").await > 0.0);

    let mut delivered = HashSet::new();
    for http in &mut clients {
        let answer = Answer {
            status: 200,
            headers: Vec::new(),
            body: http.rest().await,
        };
        let jobs = note_jobs(&mut delivered, &answer);
        assert!(jobs > 0, "each answer has room for one job");
    }
    let taken = delivered.len();
    assert!(taken < JOBS, "{taken} of {JOBS} jobs at a time");
    eventually("no bytes are counted", SOON, async || {
        match unread().await {
            0.0 => Ok(()),
            bytes => Err(bytes),
        }
    })
    .await;
    let all_come = async || {
        let answer = queue
            .consume()
            .count(COUNT)
            .ttr_s(300)
            .send()
            .await
            .unwrap();
        note_jobs(&mut delivered, &answer);
        match delivered.len() {
            JOBS => Ok(()),
            taken => Err(taken),
        }
    };
    eventually("all jobs have come", SOON, all_come).await;
    assert_eq!(queue.dead_size().await, 0);
    stack.finish().await;
}

/// Returns the number of jobs in an answer. Each must be new, and delivered at its only try.
fn note_jobs(delivered: &mut HashSet<String>, answer: &Answer) -> usize {
    let jobs = ReceivedJob::parse_all(answer);
    for job in &jobs {
        assert_eq!((job.body.len(), job.remain_tries), (BODY_BYTES, 0));
        assert!(delivered.insert(job.id.clone()), "{} came twice", job.id);
    }
    jobs.len()
}
