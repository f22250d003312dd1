//! Leases of running jobs: heartbeats, cancels, losses, stops.

use std::time::Duration;

use tidegate::{CancelReason, CancelResult, Fail, IfRunning, Job, JobState, Worker};
use tidegate_testkit::eventually;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::fixture::{LIMIT, RunningWorker, SERVER, clients};

/// More events than any test has.
const EVENTS: usize = 64;

/// What a handler saw of its job.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Started { attempt: u32, failures: u32 },
    Cancelled(Option<CancelReason>),
}

const fn started(attempt: u32) -> Event {
    Event::Started {
        attempt,
        failures: 0,
    }
}

/// A handler that runs until its token is cancelled, or for this time.
fn until_cancelled(
    events: Sender<Event>,
    limit: Duration,
) -> impl Fn(Job) -> futures_util::future::BoxFuture<'static, Result<(), Fail>> + Send + Sync + 'static
{
    move |job| {
        let events = events.clone();
        Box::pin(async move {
            let (attempt, failures) = (job.attempt(), job.failures());
            let _ = events.try_send(Event::Started { attempt, failures });
            tokio::select! {
                () = tokio::time::sleep(limit) => Ok(()),
                () = job.cancelled().cancelled() => {
                    let _ = events.try_send(Event::Cancelled(job.cancel_reason()));
                    Err(Fail::retry("cancelled"))
                }
            }
        })
    }
}

async fn next(events: &mut Receiver<Event>) -> Event {
    let event = tokio::time::timeout(LIMIT, events.recv()).await;
    event.expect("the handler runs").unwrap()
}

#[tokio::test]
async fn heartbeats_keep_long_jobs_and_a_stop_waits_for_them() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "leases-long").await;
    let (sender, mut events) = channel(EVENTS);
    let handler = until_cancelled(sender, Duration::from_secs(6));
    let worker = Worker::new(client.clone())
        .handle_raw("q", handler)
        .lease(Duration::from_secs(2));
    let worker = RunningWorker::start(worker, LIMIT);
    let job = client
        .publish_raw("q", "x", "text/plain")
        .retain(LIMIT)
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, started(1));
    worker.stop().await;
    let details = job.show().await.unwrap();
    assert_eq!(
        (details.state, details.attempt, details.losses),
        (JobState::Done, 1, 0)
    );
    assert!(events.recv().await.is_none(), "the job ran once");
}

/// Leases are extended by the length that they were granted.
#[tokio::test]
async fn a_shorter_lease_of_the_policy_ends_no_running_job() {
    let stack = SERVER.acquire().await;
    let (client, native) = clients(&stack, "leases-policy").await;
    let (sender, mut events) = channel(EVENTS);
    let worker = Worker::new(client.clone())
        .handle_raw("q", until_cancelled(sender, Duration::from_secs(8)));
    let change = async |lease: &str| {
        let policy = serde_json::json!({ "lease": lease });
        let changed = native.call("PATCH", "/queues/q/policy", &policy).await;
        changed.expect(200);
        // Policies are effective within a second.
        tokio::time::sleep(Duration::from_millis(1500)).await;
    };
    change("5s").await;
    let worker = RunningWorker::start(worker, LIMIT);
    let publishing = client.publish_raw("q", "x", "text/plain").retain(LIMIT);
    let job = publishing.await.unwrap();
    assert_eq!(next(&mut events).await, started(1));
    change("200ms").await;
    worker.stop().await;
    let details = job.show().await.unwrap();
    assert_eq!((details.state, details.losses), (JobState::Done, 0));
    assert!(events.recv().await.is_none(), "the job ran once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_keeps_its_lease_and_stops_no_other() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "leases-block").await;
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the mistake that is tested"
    )]
    let blocks = async |_: Job| {
        std::thread::sleep(Duration::from_secs(5));
        Ok(())
    };
    let (sender, mut events) = channel(EVENTS);
    let worker = Worker::new(client.clone())
        .handle_raw("blocks", blocks)
        .handle_raw("others", until_cancelled(sender, Duration::ZERO))
        .lease(Duration::from_secs(2));
    let worker = RunningWorker::start(worker, LIMIT);
    let blocking = client
        .publish_raw("blocks", "x", "text/plain")
        .retain(LIMIT)
        .await
        .unwrap();
    eventually("the handler blocks", LIMIT, async || {
        match blocking.show().await.unwrap().state {
            JobState::Leased => Ok(()),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
    client
        .publish_raw("others", "x", "text/plain")
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, started(1));
    worker.stop().await;
    let details = blocking.show().await.unwrap();
    assert_eq!(
        (details.state, details.attempt, details.losses),
        (JobState::Done, 1, 0)
    );
}

#[tokio::test]
async fn a_requested_cancel_and_a_lost_lease_cancel_the_token() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "leases-cancel").await;
    let (sender, mut events) = channel(EVENTS);
    let handler = until_cancelled(sender, LIMIT);
    let worker = Worker::new(client.clone())
        .handle_raw("q", handler)
        .lease(Duration::from_secs(2));
    let worker = RunningWorker::start(worker, LIMIT);
    for (if_running, result, reason) in [
        (
            IfRunning::Ask,
            CancelResult::Requested,
            CancelReason::Requested,
        ),
        (
            IfRunning::Revoke,
            CancelResult::Revoked,
            CancelReason::LeaseLost,
        ),
    ] {
        let job = client.publish_raw("q", "x", "text/plain").await.unwrap();
        assert_eq!(next(&mut events).await, started(1));
        assert_eq!(
            job.cancel_even_if_running(if_running).await.unwrap(),
            result
        );
        assert_eq!(next(&mut events).await, Event::Cancelled(Some(reason)));
        eventually("the job is deleted", LIMIT, async || {
            match job.cancel().await.unwrap() {
                CancelResult::NotFound => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    worker.stop().await;
}

#[tokio::test]
async fn jobs_of_a_worker_that_is_killed_come_back_when_the_lease_expires() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "leases-killed").await;
    let (sender, mut events) = channel(EVENTS);
    let handler = until_cancelled(sender.clone(), LIMIT);
    let worker = Worker::new(client.clone())
        .handle_raw("q", handler)
        .lease(Duration::from_secs(1));
    let worker = RunningWorker::start(worker, LIMIT);
    let job = client
        .publish_raw("q", "x", "text/plain")
        .retain(LIMIT)
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, started(1));
    worker.kill().await;
    let other = Worker::new(client).handle_raw("q", until_cancelled(sender, Duration::ZERO));
    let other = RunningWorker::start(other, LIMIT);
    assert_eq!(next(&mut events).await, started(2));
    other.stop().await;
    let details = job.show().await.unwrap();
    assert_eq!(
        (details.state, details.losses, details.failures),
        (JobState::Done, 1, 0)
    );
}

#[tokio::test]
async fn jobs_of_a_worker_that_stops_come_back_at_once_and_count_as_no_failure() {
    let stack = SERVER.acquire().await;
    let (client, native) = clients(&stack, "leases-stopped").await;
    let (sender, mut events) = channel(EVENTS);
    let handler = until_cancelled(sender.clone(), LIMIT);
    // The lease is longer than the test: the jobs come back since they are given back.
    let worker = Worker::new(client.clone())
        .handle_raw("q", handler)
        .lease(LIMIT * 100)
        .concurrency(3)
        .prefetch(1);
    let worker = RunningWorker::start(worker, Duration::from_millis(200));
    for _ in 0..5 {
        client.publish_raw("q", "x", "text/plain").await.unwrap();
    }
    for _ in 0..3 {
        assert_eq!(next(&mut events).await, started(1));
    }
    // Three run, one waits for a slot, and one is left to others.
    let queue = client.queue("q").unwrap();
    tidegate_testkit::eventually("one job waits", LIMIT, async || {
        match queue.stats().await.unwrap().jobs.leased {
            4 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    worker.stop().await;
    let jobs = native.reserve("q", 5).await;
    let attempts = |attempt: u64| jobs.iter().filter(|job| job["attempt"] == attempt).count();
    assert_eq!((attempts(2), attempts(1)), (4, 1));
    assert!(jobs.iter().all(|job| job["failures"] == 0));
    let handle = client
        .queue("q")
        .unwrap()
        .job(jobs[0]["id"].as_str().unwrap())
        .unwrap();
    assert_eq!(handle.show().await.unwrap().losses, 0);
}
