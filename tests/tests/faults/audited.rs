//! Audits of a deployment at work: they see changes half done, and must not take one for damage. They may mend what they
//! find, so a false alarm would also be a job that is delivered twice, counted wrongly or set aside.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::RngExt;
use tidegate_store::{AuditEvent, AuditOptions, Store, StoreConfig};
use tidegate_testkit::{Stack, figure};

use crate::pumps_disturbed::{LEASE, kill_at_random, pass};
use crate::turn;

const JOBS: usize = 10_000;

/// Few buckets are large ones, in which lists and chunks take many calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audits_of_large_buckets_at_work_raise_no_false_alarm() {
    pass_audits("audits of large buckets", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audits_of_small_buckets_at_work_raise_no_false_alarm() {
    pass_audits("audits of small buckets", 16).await;
}

async fn pass_audits(test: &str, buckets: u32) {
    let _turn = turn().await;
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
    figure(&format!("{test}: {} audits", audits.into_inner()));
    stack.finish().await;
}
