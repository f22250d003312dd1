//! Pages with many queues.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tidegate_testkit::{NativeClient, Stack, eventually, print_figure};

/// How many queues the pages are measured with, such as 10000; 2,000 by default.
const QUEUES_VARIABLE: &str = "TIDEGATE_QUEUES";
/// How often each page is loaded.
const LOADS: u32 = 50;

/// What a page costs.
struct PageCost {
    bytes: usize,
    /// From the request to the whole answer: the median.
    took: Duration,
    /// Of the processor, used by the API process for each load.
    cpu: Duration,
}

/// Loads a page several times.
async fn load(stack: &Stack, path: &str) -> PageCost {
    let url = format!("{}{path}", stack.api(0).admin_url());
    let mut bytes = 0;
    let mut times = Vec::new();
    let cpu = stack.api(0).cpu_time();
    for _ in 0..LOADS {
        let began_at = Instant::now();
        let answer = reqwest::get(&url).await.unwrap();
        assert_eq!(answer.status(), 200, "{url}");
        bytes = answer.text().await.unwrap().len();
        times.push(began_at.elapsed());
    }
    times.sort();
    PageCost {
        bytes,
        took: times[times.len() / 2],
        cpu: (stack.api(0).cpu_time() - cpu) / LOADS,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_many_queues_are_small() {
    let queues: usize = std::env::var(QUEUES_VARIABLE).map_or(2000, |text| text.parse().unwrap());
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "many").await;
    let publish_some = async |begin: usize| {
        for number in (begin..queues).step_by(16) {
            let path = format!("/queues/queue-with-a-long-name-{number}/jobs");
            client.call("POST", &path, &json!(1)).await.expect(201);
        }
    };
    join_all((0..16).map(publish_some)).await;
    let base = stack.api(0).admin_url();
    let pages = queues.div_ceil(100);
    eventually(
        "all queues are listed",
        Duration::from_secs(60),
        async || {
            let page = reqwest::get(format!("{base}/ui/default/queues"))
                .await
                .unwrap();
            let page = page.text().await.unwrap();
            let is_whole = page.contains(&format!("page 1 of {pages}"));
            if is_whole { Ok(()) } else { Err("not yet") }
        },
    )
    .await;
    for (name, path) in [
        ("queues", "/ui/default/queues"),
        ("overview", "/ui"),
        (
            "a queue",
            "/ui/default/queues/many/queue-with-a-long-name-7",
        ),
        ("workers", "/ui/default/workers?namespace=many"),
        ("schedules", "/ui/default/schedules?namespace=many"),
        ("system", "/ui/default/system"),
    ] {
        let PageCost { bytes, took, cpu } = load(&stack, path).await;
        print_figure(&format!(
            "{queues} queues, the page {name}: {bytes} bytes, {took:.1?}, {cpu:.1?} of the processor"
        ));
        assert!(bytes < 200 * 1024, "{name}: {bytes}");
        // The goal is 100 ms. Other tests make a page wait for a processor, so its time is only printed.
        assert!(cpu < Duration::from_secs(1), "{name}: {cpu:?}");
    }
    stack.finish().await;
}
