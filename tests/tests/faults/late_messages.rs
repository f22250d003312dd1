//! Alarms and replies that a pump reads late, because it or the network was paused.

use std::time::{Duration, Instant};

use tidegate_testkit::fault_proxy::{DirectionConditions, ForwardMode, NetworkConditions};
use tidegate_testkit::{
    Daemon, DaemonProgram, FaultProxy, QueueClient, Stack, print_figure, seed, start_redis,
};
use tokio::time::sleep;

/// Less than the lease and the time limit of a call, so that the pump continues as if nothing had happened.
const PAUSE: Duration = Duration::from_secs(2);
/// When a job is due.
const DELAY: Duration = Duration::from_secs(4);
/// When a job is due that follows another one.
const SECOND_DELAY: Duration = Duration::from_secs(6);
/// When the job before it is due. The network stalls shortly before, so the pump has read every earlier reply by then.
const PROBE_DELAY: Duration = Duration::from_secs(3);
const STALL_BEFORE_PROBE: Duration = Duration::from_millis(400);
/// How often the stall is tried.
const ATTEMPTS: usize = 5;
/// A job whose delay counted from the end of the pause would be late by at least [`PAUSE`].
const LATE_MAX: Duration = Duration::from_millis(1900);

/// The alarm of a job that is published while the pump is paused says in how many ms the job is due. Found by the fault
/// runs 45033 and 45101: the pump counted from when it read the alarm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_published_while_the_pump_is_paused_is_on_time() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    let pump = stack.pump(0);
    // Afterwards the pump has run the bucket: one that it has not run yet would be run when the pause ends.
    let first = queue.publish("first").delay_s(1).id().await;
    expect_job(&queue, &first).await;
    pump.pause();
    let due_at = Instant::now() + DELAY;
    let id = queue.publish("x").delay_s(DELAY.as_secs()).id().await;
    sleep(PAUSE).await;
    pump.resume();
    expect_on_time(&queue, &id, due_at).await;
    stack.finish().await;
}

/// The reply of `move_due` says in how long the next job is due. It arrives late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_on_time_although_the_reply_before_it_arrived_late() {
    let redis = start_redis();
    let proxy = FaultProxy::start(redis.address(), seed()).await;
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--redis".to_owned(), redis.url()];
    let api = Daemon::start(DaemonProgram::Api, "api", &arguments, folder.path()).await;
    let arguments = ["--redis".to_owned(), format!("redis://{}", proxy.address())];
    let _pump = Daemon::start(DaemonProgram::Pumpd, "pump", &arguments, folder.path()).await;
    let queue = QueueClient::with_new_token(&api, "default", "late-replies", "q").await;
    // Afterwards the pump leads the bucket, and the server has the scripts: neither needs a reply behind the stall.
    let first = queue.publish("first").delay_s(1).id().await;
    expect_job(&queue, &first).await;
    for attempt in 1..=ATTEMPTS {
        if is_on_time_after_a_stall(&queue, &proxy).await {
            return;
        }
        print_figure(&format!("attempt {attempt}: the machine stalled the pump"));
    }
    panic!("in none of {ATTEMPTS} attempts the pump moved a job during the stall");
}

/// Returns whether the pump has moved the first job while the network stalled its replies; then the second job must be on
/// time. If the machine stalls the pump before, its lease ends, and it moves nothing: that proves nothing.
async fn is_on_time_after_a_stall(queue: &QueueClient, proxy: &FaultProxy) -> bool {
    let due_at = Instant::now() + SECOND_DELAY;
    let id = queue
        .publish("x")
        .delay_s(SECOND_DELAY.as_secs())
        .id()
        .await;
    let probe_delay_s = PROBE_DELAY.as_secs();
    let probe = queue.publish("probe").delay_s(probe_delay_s).id().await;
    sleep(PROBE_DELAY - STALL_BEFORE_PROBE).await;
    let to_client = DirectionConditions {
        mode: ForwardMode::Stalls,
        ..DirectionConditions::default()
    };
    proxy.set(NetworkConditions {
        to_client,
        ..NetworkConditions::default()
    });
    let moved = queue.consume().timeout_s(PROBE_DELAY.as_secs()).job().await;
    let has_moved = moved.is_some_and(|job| job.id == probe);
    if has_moved {
        queue.ack(&probe).await;
        sleep(PAUSE).await;
    }
    proxy.set(NetworkConditions::default());
    if has_moved {
        expect_on_time(queue, &id, due_at).await;
        return true;
    }
    for _ in [&probe, &id] {
        let job = queue.consume().timeout_s(30).job().await;
        queue.ack(&job.expect("the job becomes ready").id).await;
    }
    false
}

async fn expect_job(queue: &QueueClient, id: &str) {
    let job = queue.consume().timeout_s(30).job().await;
    assert_eq!(job.expect("the job becomes ready").id, id);
    queue.ack(id).await;
}

async fn expect_on_time(queue: &QueueClient, id: &str, due_at: Instant) {
    expect_job(queue, id).await;
    let late = Instant::now().checked_duration_since(due_at);
    let late = late.expect("never early");
    print_figure(&format!(
        "what arrives {PAUSE:?} late: a job is {late:?} late"
    ));
    assert!(late < LATE_MAX, "{late:?}");
}
