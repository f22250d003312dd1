//! A tenant whose consumers name very many queues does not delay the publishes of others.

use std::time::{Duration, Instant};

use tidegate_testkit::{RawHttp, Stack};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::alone;
use crate::figures::Durations;

const CONSUMERS: usize = 60;
const NAMES: usize = 1000;
const FLOOD: Duration = Duration::from_secs(5);
/// Debug builds on a busy machine. Release builds keep to a twentieth of it.
const P99_MAX: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumes_of_a_thousand_queues_do_not_delay_the_publishes_of_others() {
    let _alone = alone().await;
    let stack = Stack::builder().pumps(0).start().await;
    let (attacker, victim) = (stack.queue("a").await, stack.queue("v").await);
    let until = Instant::now() + FLOOD;
    let mut flood = JoinSet::new();
    for number in 0..CONSUMERS {
        let names: Vec<String> = (0..NAMES).map(|name| format!("{number}-{name}")).collect();
        let target = format!(
            "/api/{}/{}?timeout=1",
            attacker.namespace(),
            names.join(",")
        );
        let token = [("X-Token".to_owned(), attacker.token().to_owned())];
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        flood.spawn(async move {
            let mut answers = 0;
            while Instant::now() < until {
                http.request("GET", &target, &token, b"").await;
                http.answer().await.unwrap().expect(404);
                answers += 1;
            }
            answers
        });
    }
    // The requests of the flood arrive at the same moment, which a debug build takes long to read.
    sleep(Duration::from_secs(1)).await;
    let mut took = Durations::new();
    while Instant::now() < until {
        let begin = Instant::now();
        victim.publish("x").id().await;
        took.add(begin.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    took.show("publishes of another tenant");
    let answers: usize = flood.join_all().await.into_iter().sum();
    assert!(answers >= CONSUMERS, "{answers} consumes were answered");
    assert!(took.at(0.99) <= P99_MAX, "{took:?}");
    stack.finish().await;
}
