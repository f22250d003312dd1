//! Lists of one namespace do not delay the requests of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tidegate_testkit::{FarApi, NativeClient, Stack, print_figure};
use tokio::task::JoinSet;

/// How much longer each call to Redis takes. A list takes at least one.
const DELAY: Duration = Duration::from_millis(20);
/// Lists that a namespace requests at once, and reads at once.
const REQUESTED: u32 = 12;
const AT_ONCE: u32 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_reads_two_lists_at_once_and_others_do_not_wait_for_them() {
    let stack = Stack::builder().start().await;
    let far = FarApi::start(&stack, "10s").await;
    let [busy, other] = ["busy", "other"].map(async |namespace| {
        let created = NativeClient::new(stack.api(0), namespace).await;
        NativeClient::with_key(&far.api, namespace, created.key())
    });
    let (busy, other) = (busy.await, other.await);
    for path in [
        "/queues/q/jobs",
        "/queues",
        "/schedules",
        "/relays",
        "/workers",
        "/keys",
    ] {
        // The API knows the keys.
        for client in [&busy, &other] {
            client.get(path).await.expect(200);
        }
        far.slow_down(DELAY);
        let (began, answered) = (Instant::now(), Arc::new(AtomicU32::new(0)));
        let mut lists = JoinSet::new();
        for _ in 0..REQUESTED {
            let (busy, answered) = (busy.clone(), Arc::clone(&answered));
            lists.spawn(async move {
                busy.get(path).await.expect(200);
                answered.fetch_add(1, Ordering::Relaxed);
            });
        }
        other.get(path).await.expect(200);
        let before = answered.load(Ordering::Relaxed);
        lists.join_all().await;
        let took = began.elapsed();
        print_figure(&format!("{path}: {REQUESTED} lists in {took:?}"));
        assert!(before < REQUESTED, "{path}: another namespace waited");
        assert!(took >= DELAY * (REQUESTED / AT_ONCE), "{path}: {took:?}");
        far.slow_down(Duration::ZERO);
    }
    stack.finish().await;
}
