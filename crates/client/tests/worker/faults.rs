//! Broken connections, and servers that restart.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::{Applied, BatchJob, Data, Error, Fail, Job, JobState, Worker};
use tidegate_testkit::fault_proxy::{DirectionConditions, ForwardMode, NetworkConditions};
use tidegate_testkit::{FaultProxy, NativeClient, Stack, eventually, seed};

use crate::fixture::{LIMIT, RunningWorker, SERVER, client_at, clients};

/// Answers do not arrive.
fn silent() -> NetworkConditions {
    let to_client = DirectionConditions {
        mode: ForwardMode::Stalls,
        ..DirectionConditions::default()
    };
    NetworkConditions {
        to_client,
        ..NetworkConditions::default()
    }
}

async fn ready(native: &NativeClient, queue: &str, expected: u64) {
    eventually("the job is stored", LIMIT, async || {
        let view = native
            .get(&format!("/queues/{queue}"))
            .await
            .expect(200)
            .json();
        if view["jobs"]["ready"] == expected {
            Ok(())
        } else {
            Err(view)
        }
    })
    .await;
}

#[tokio::test]
async fn an_idempotent_publish_whose_answer_is_lost_creates_one_job() {
    let stack = SERVER.acquire().await;
    let (_, native) = clients(&stack, "faults-publish").await;
    let proxy = FaultProxy::start(stack.api(0).listen(), seed()).await;
    let client = client_at(proxy.address(), &native, "faults-publish");

    proxy.set(silent());
    let publish = client.publish_raw("safe", "x", "text/plain").idempotent();
    let publishing = tokio::spawn(publish.into_future());
    ready(&native, "safe", 1).await;
    proxy.cut();
    proxy.set(NetworkConditions::default());
    let job = publishing.await.unwrap().unwrap();
    assert!(job.replayed);
    ready(&native, "safe", 1).await;

    proxy.set(silent());
    let publish = client.publish_raw("unsafe", "x", "text/plain");
    let publishing = tokio::spawn(publish.into_future());
    ready(&native, "unsafe", 1).await;
    proxy.cut();
    proxy.set(NetworkConditions::default());
    let error = publishing.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::ConnectionBroken(_)), "{error}");
    assert_eq!(error.applied(), Applied::Unknown);
    ready(&native, "unsafe", 1).await;
}

#[tokio::test]
async fn an_ack_is_repeated_until_the_server_answers() {
    let stack = SERVER.acquire().await;
    let (direct, native) = clients(&stack, "faults-ack").await;
    let proxy = Arc::new(FaultProxy::start(stack.api(0).listen(), seed()).await);
    let client = client_at(proxy.address(), &native, "faults-ack");
    let job = direct
        .publish_raw("q", "x", "text/plain")
        .retain(LIMIT)
        .await
        .unwrap();
    let broken = Arc::clone(&proxy);
    let worker = Worker::new(client).handle_raw("q", move |_: Job| {
        let proxy = Arc::clone(&broken);
        async move {
            let resets_connections = true;
            proxy.set(NetworkConditions {
                resets_connections,
                ..NetworkConditions::default()
            });
            proxy.cut();
            Ok(())
        }
    });
    let worker = RunningWorker::start(worker.lease(LIMIT), LIMIT);
    eventually("the handler has run", LIMIT, async || {
        match job.show().await.unwrap().attempt {
            1 => Ok(()),
            attempt => Err(attempt),
        }
    })
    .await;
    // Long enough for several attempts to acknowledge the job.
    tokio::time::sleep(Duration::from_secs(1)).await;
    proxy.set(NetworkConditions::default());
    eventually("the job is done", LIMIT, async || {
        match job.show().await.unwrap() {
            details if details.state == JobState::Done => Ok(()),
            details => Err(format!("{details:?}")),
        }
    })
    .await;
    assert_eq!(job.show().await.unwrap().attempt, 1);
    worker.stop().await;
}

#[derive(Debug, Default)]
struct Ran(Mutex<HashSet<String>>);

async fn note(job: Job, ran: Data<Arc<Ran>>) -> Result<(), Fail> {
    tokio::time::sleep(Duration::from_millis(5)).await;
    ran.0.lock().unwrap().insert(job.id().to_string());
    Ok(())
}

#[tokio::test]
async fn nothing_is_lost_while_the_api_restarts() {
    let stack = Stack::builder().start().await;
    let (client, _) = clients(&stack, "faults-restart").await;
    let jobs = (0..1_500).map(|number: u32| BatchJob::raw("q", number.to_string(), "text/plain"));
    let jobs: Vec<BatchJob> = jobs.collect();
    let mut jobs = jobs.into_iter();
    let mut published = HashSet::new();
    for _ in 0..3 {
        let batch = client.publish_batch(jobs.by_ref().take(500)).await.unwrap();
        published.extend(batch.into_iter().map(|job| job.unwrap().id.to_string()));
    }
    let ran = Arc::new(Ran::default());
    let worker = Worker::new(client.clone())
        .handle_raw("q", note)
        .data(Arc::clone(&ran));
    // What was reserved by an API that died comes back soon.
    let worker = RunningWorker::start(worker.lease(Duration::from_secs(2)).concurrency(16), LIMIT);
    for least in [100, 600] {
        eventually("jobs run", LIMIT, async || {
            match ran.0.lock().unwrap().len() {
                count if count >= least => Ok(()),
                count => Err(count),
            }
        })
        .await;
        stack.api(0).restart().await;
    }
    let queue = client.queue("q").unwrap();
    eventually("all jobs are done", LIMIT, async || {
        let jobs = queue.stats().await.unwrap().jobs;
        if jobs.ready + jobs.leased + jobs.delayed == 0 {
            Ok(())
        } else {
            Err(format!("{jobs:?}"))
        }
    })
    .await;
    worker.stop().await;
    assert_eq!(*ran.0.lock().unwrap(), published);
    assert_eq!(queue.stats().await.unwrap().jobs.dead, 0);
    stack.finish().await;
}
