//! Audits of a deployment in use: they see changes in progress, which are no damage. Audits may repair what they find,
//! so a false finding could deliver a job twice, miscount it or set it aside.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::RngExt;
use tidegate_store::{AuditEvent, AuditOptions, Store, StoreConfig};
use tidegate_testkit::{Stack, print_figure};

use crate::pumps_disturbed::{LEASE, kill_at_random, pass};

const JOBS: usize = 5_000;

/// With few buckets each is large, so its lists and chunks take many calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audits_of_large_buckets_in_use_have_no_false_findings() {
    pass_audits("audits of large buckets", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audits_of_small_buckets_in_use_have_no_false_findings() {
    pass_audits("audits of small buckets", 16).await;
}

async fn pass_audits(test: &str, buckets: u32) {
    let settings = format!("[pool.default]\nbuckets = {buckets}");
    let stack = Stack::builder()
        .pumps(2)
        .lease(LEASE)
        .api_config(&settings)
        .pump_config(&settings)
        .start()
        .await;
    let mut config = StoreConfig::new(stack.redis.url());
    config.buckets = buckets;
    let store = Store::connect(&config).await.unwrap();
    let audits = AtomicUsize::new(0);
    let audit = async |stack: &Stack, random: &mut rand::rngs::StdRng| {
        if random.random_bool(0.3) {
            kill_at_random(stack, random).await;
        }
        let options = AuditOptions {
            buckets: vec![],
            repair: random.random_bool(0.5),
            pause: Duration::from_micros(random.random_range(0..1500)),
        };
        let mut found = Vec::new();
        let mut note = |event| {
            if let AuditEvent::Found(finding) = event {
                found.push(finding);
            }
        };
        let summary = store.audit(&options, &mut note).await.unwrap();
        assert_eq!(found, [], "{summary:?}");
        audits.fetch_add(1, Ordering::Relaxed);
    };
    pass(test, &stack, JOBS, audit).await;
    print_figure(&format!("{test}: {} audits", audits.into_inner()));
    stack.finish().await;
}
