//! Alarms and replies that a pump reads late, because it or the network was paused. A machine that stalls the pump for
//! a second in between would make it call at other times than the tests need, so they run alone.

use std::time::{Duration, Instant};

use tidegate_testkit::fault_proxy::{DirectionConditions, ForwardMode, NetworkConditions};
use tidegate_testkit::{
    Daemon, DaemonProgram, FaultProxy, QueueClient, Stack, eventually, print_figure, seed,
    start_redis,
};
use tokio::time::{sleep, sleep_until};

use crate::alone;

/// Less than the lease and the time limit of a call, so that the pump continues as if nothing had happened.
const PAUSE: Duration = Duration::from_secs(2);
/// When a job is due.
const DELAY: Duration = Duration::from_secs(4);
/// When a job is due that follows another one.
const SECOND_DELAY: Duration = Duration::from_secs(6);
/// When the job before it is due.
const PROBE_DELAY: Duration = Duration::from_secs(3);
/// The limits of a pump that waits for replies throughout the test.
const PATIENT: [(&str, &str); 2] = [
    ("TIDEGATE_POOL__DEFAULT__COMMAND_TIMEOUT", "30s"),
    ("TIDEGATE_PUMP__LEASE", "30s"),
];
/// A job whose delay counted from the end of the pause would be late by at least [`PAUSE`].
const LATE_MAX: Duration = Duration::from_millis(1900);

/// The alarm of a job that is published while the pump is paused says in how many ms the job is due. Found by the fault
/// runs 45033 and 45101: the pump counted from when it read the alarm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_published_while_the_pump_is_paused_is_on_time() {
    let _alone = alone().await;
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

/// The reply of `move_due` says in how long the next job is due. It arrives late. A pump may call `move_due` too early,
/// and a reply without a job would then keep it from calling again: the network holds its call until the job is due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_on_time_although_the_reply_before_it_arrived_late() {
    let _alone = alone().await;
    let redis = start_redis();
    let proxy = FaultProxy::start(redis.address(), seed()).await;
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--redis".to_owned(), redis.url()];
    let api = Daemon::start(DaemonProgram::Api, "api", &arguments, folder.path()).await;
    let arguments = ["--redis".to_owned(), format!("redis://{}", proxy.address())];
    let pump = DaemonProgram::Pumpd;
    let pump = Daemon::start_with(pump, "pump", &arguments, &PATIENT, folder.path()).await;
    let queue = QueueClient::with_new_token(&api, "default", "late-replies", "q").await;
    let begin = Instant::now();
    let id = queue
        .publish("x")
        .delay_s(SECOND_DELAY.as_secs())
        .id()
        .await;
    let probe_delay_s = PROBE_DELAY.as_secs();
    let probe = queue.publish("probe").delay_s(probe_delay_s).id().await;
    // The clock of Redis may be slewed.
    let probe_due_by = Instant::now() + PROBE_DELAY + Duration::from_millis(100);
    // So late that the connection of the pump is not idle for long: a pump checks an idle connection by a `PING`, whose
    // reply would be stalled.
    let first = queue.publish("first").delay_s(2).id().await;
    expect_job(&queue, &first).await;
    // Afterwards the pump needs no earlier reply: it has read when the probe is due.
    eventually(
        "the pump read a reply",
        Duration::from_secs(30),
        async || match pump.metric("tidegate_pump_moved_total").await {
            1.0 => Ok(()),
            moved => Err(moved),
        },
    )
    .await;
    proxy.set(stalled(ForwardMode::Stalls));
    sleep_until(probe_due_by.into()).await;
    proxy.set(stalled(ForwardMode::Passes));
    expect_job(&queue, &probe).await;
    sleep(PAUSE).await;
    proxy.set(NetworkConditions::default());
    expect_on_time(&queue, &id, begin + SECOND_DELAY).await;
}

/// The network stalls replies, and does this to calls.
fn stalled(calls: ForwardMode) -> NetworkConditions {
    let in_mode = |mode| DirectionConditions {
        mode,
        ..DirectionConditions::default()
    };
    NetworkConditions {
        to_server: in_mode(calls),
        to_client: in_mode(ForwardMode::Stalls),
        ..NetworkConditions::default()
    }
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
