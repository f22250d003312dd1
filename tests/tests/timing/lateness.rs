//! Jobs are never early, and hardly late.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::RngExt;
use tidegate_testkit::{QueueClient, Stack, eventually, print_figure, random};

use crate::alone;
use crate::figures::Durations;

const JOBS: usize = 500;
const CONSUMERS: usize = 8;
const DELAY: Duration = Duration::from_secs(1);
const GAP_MS_MAX: u64 = 20;
/// Of half of the jobs: all that become due in a second are late if the machine stalls for that long.
const P50_MAX: Duration = Duration::from_millis(50);
const LATEST_MAX: Duration = Duration::from_secs(5);

/// When the publish of a job was sent and answered, and when a consumer received the job.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    sent: Option<Instant>,
    answered: Option<Instant>,
    received: Option<Instant>,
}

type Ledger = Arc<Mutex<Vec<Times>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_early_and_none_is_late() {
    let _alone = alone().await;
    let stack = Stack::builder().start().await;
    let queue = stack.queue("due").await;
    let ledger: Ledger = Arc::new(Mutex::new(vec![Times::default(); JOBS]));
    let consumers: Vec<_> = (0..CONSUMERS)
        .map(|_| {
            tokio::spawn(consume(
                queue.with_separate_connections(),
                Arc::clone(&ledger),
            ))
        })
        .collect();
    publish(&queue, &ledger).await;
    let all = async || {
        let received = ledger
            .lock()
            .unwrap()
            .iter()
            .filter(|t| t.received.is_some())
            .count();
        if received == JOBS {
            Ok(())
        } else {
            Err(received)
        }
    };
    eventually("all jobs come", Duration::from_secs(10), all).await;
    for consumer in consumers {
        consumer.abort();
    }
    judge(&ledger.lock().unwrap());
    judge_pump(&stack).await;
    stack.finish().await;
}

async fn publish(queue: &QueueClient, ledger: &Ledger) {
    let mut random = random("lateness");
    let mut publishing = Vec::new();
    for number in 0..JOBS {
        // Publish times are random: this does not wait for anything.
        let gap = Duration::from_millis(random.random_range(0..GAP_MS_MAX));
        tokio::time::sleep(gap).await;
        let (queue, ledger) = (queue.clone(), Arc::clone(ledger));
        publishing.push(tokio::spawn(async move {
            let publish = queue.publish(number.to_string()).delay_s(DELAY.as_secs());
            ledger.lock().unwrap()[number].sent = Some(Instant::now());
            publish.id().await;
            ledger.lock().unwrap()[number].answered = Some(Instant::now());
        }));
    }
    for one in publishing {
        one.await.unwrap();
    }
}

async fn consume(queue: QueueClient, ledger: Ledger) {
    loop {
        let job = queue.consume().timeout_s(5).job().await;
        let now = Instant::now();
        if let Some(job) = job {
            let number: usize = job.text().parse().unwrap();
            let before = ledger.lock().unwrap()[number].received.replace(now);
            assert!(before.is_none(), "job {number} came twice");
        }
    }
}

/// Lateness as defined: the time at which a job became consumable minus its due time, both by the clock of Redis. What
/// [`judge`] shows also includes the publish and the delivery.
async fn judge_pump(stack: &Stack) {
    let name = "tidegate_pump_lateness_seconds";
    let pump = stack.pump(0);
    let moved = pump.metric(&format!("{name}_count")).await;
    let within = pump
        .metric_with_label(&format!("{name}_bucket"), r#"le="0.005""#)
        .await;
    assert!(moved >= JOBS as f64, "the pump has counted {moved} jobs");
    print_figure(&format!(
        "of {moved} jobs {within} were consumable within 5 ms of their due time ({:.1} %)",
        100.0 * within / moved
    ));
}

fn judge(times: &[Times]) {
    let mut lateness = Durations::new();
    let mut early = 0;
    for times in times {
        let (sent, received) = (times.sent.unwrap(), times.received.unwrap());
        match received.checked_duration_since(sent + DELAY) {
            Some(late) => lateness.add(late),
            None => early += 1,
        }
    }
    lateness.show(
        "lateness of a job with a delay of 1 s, from the request that published it to its consumer",
    );
    let mut publishing = Durations::new();
    for times in times {
        publishing.add(times.answered.unwrap() - times.sent.unwrap());
    }
    publishing.show("of which publishing took");
    assert_eq!(early, 0, "jobs came early");
    let (typical, latest) = (lateness.at(0.5), lateness.max());
    assert!(typical <= P50_MAX, "p50 is {typical:?}");
    assert!(latest < LATEST_MAX, "the latest is {latest:?}");
}
