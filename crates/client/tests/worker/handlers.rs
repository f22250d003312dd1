//! What a worker does with each end of a handler.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::api::job::DeadReason;
use tidegate::{
    Client, Data, Fail, Job, JobDetails, JobHandle, JobState, PolicyChange, Task, Timestamp, Worker,
};
use tidegate_testkit::eventually;
use tower::timeout::TimeoutLayer;
use tower::util::MapRequestLayer;

use crate::fixture::{LIMIT, RunningWorker, SERVER, clients};

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Work {
    Succeed,
    Panic,
    PanicAtOnce,
    Retry,
    RetryIn,
    Dead,
    Snooze,
    Hang,
}

impl Task for Work {
    const QUEUE: &'static str = "work";
    type Reply = u32;
}

#[derive(Debug, Default)]
struct Seen(Mutex<Vec<String>>);

fn work(task: Work, job: Job, seen: Data<Seen>) -> impl Future<Output = Result<u32, Fail>> {
    seen.0.lock().unwrap().push(job.id().to_string());
    assert!(!matches!(task, Work::PanicAtOnce), "oh no, at once");
    async move {
        match task {
            Work::Succeed => Ok(job.attempt()),
            Work::Panic | Work::PanicAtOnce => panic!("oh no, {}", job.attempt()),
            Work::Retry => Ok("x".parse()?),
            Work::RetryIn => Err(Fail::retry_in("later", 3 * HOUR)),
            Work::Dead => Err(Fail::dead("never")),
            Work::Snooze => Err(Fail::snooze(3 * HOUR)),
            Work::Hang => std::future::pending().await,
        }
    }
}

async fn raw(job: Job) -> Result<Vec<u8>, Fail> {
    assert_eq!(
        (job.payload(), job.content_type()),
        (&b"a\xffb"[..], "image/png")
    );
    Ok(job.payload().to_vec())
}

async fn shown(job: &JobHandle, is_as_expected: impl Fn(&JobDetails) -> bool) -> JobDetails {
    eventually("the job is as expected", LIMIT, async || {
        let details = job.show().await.unwrap();
        if is_as_expected(&details) {
            Ok(details)
        } else {
            Err(format!("{details:?}"))
        }
    })
    .await
}

async fn retry_after_an_hour(client: &Client) {
    let change = PolicyChange {
        retry: tidegate::FieldChange::Set(tidegate::RetryChange {
            every: "1h".parse::<tidegate::DurationMs>().unwrap().into(),
            ..Default::default()
        }),
        retain: "10m".parse::<tidegate::DurationMs>().unwrap().into(),
        ..PolicyChange::default()
    };
    client
        .queue("work")
        .unwrap()
        .set_policy(&change)
        .await
        .unwrap();
    // Policies are in effect within a second.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
}

#[tokio::test]
async fn each_end_of_a_handler_has_its_effect() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "handlers").await;
    retry_after_an_hour(&client).await;
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let worker = Worker::new(client.clone())
        .handle(work)
        .handle_raw("raw", raw)
        .data(Seen::default())
        .layer(MapRequestLayer::new(move |job: Job| {
            counted.fetch_add(1, Ordering::Relaxed);
            job
        }))
        .layer(TimeoutLayer::new(Duration::from_secs(2)));
    let worker = RunningWorker::start(worker, LIMIT);
    let publish = async |task: Work| client.publish(task).await.unwrap();

    let job = publish(Work::Succeed).await;
    shown(&job, |job| job.state == JobState::Done).await;
    for (task, error) in [
        (Work::Panic, "the handler panicked: oh no, 1"),
        (Work::PanicAtOnce, "the handler panicked: oh no, at once"),
        (Work::Retry, "invalid digit found in string"),
        (Work::RetryIn, "later"),
        (Work::Hang, "timed out"),
    ] {
        let job = publish(task).await;
        let details = shown(&job, |job| job.failures == 1).await;
        let text = details.history[0].error.as_ref().unwrap().as_str();
        assert!(text.contains(error), "{task:?}: {text}");
        let hours = if matches!(task, Work::RetryIn) { 3 } else { 1 };
        let published = job.run_at.unwrap().as_ms();
        let least = Timestamp::saturating(published + hours * HOUR.as_millis() as u64);
        assert!(
            details.state == JobState::Delayed && details.run_at.unwrap() >= least,
            "{details:?}"
        );
    }
    let job = publish(Work::Dead).await;
    let details = shown(&job, |job| job.state == JobState::Dead).await;
    assert_eq!(details.reason, Some(DeadReason::Permanent));
    let job = publish(Work::Snooze).await;
    let details = shown(&job, |job| {
        job.attempt == 1 && job.state == JobState::Delayed
    })
    .await;
    assert_eq!((details.failures, details.losses), (0, 0));

    let invalid = client
        .publish_raw("work", "{\"Unknown\":1}", "application/json")
        .await
        .unwrap();
    let details = shown(&invalid, |job| job.state == JobState::Dead).await;
    let error = details.history[0].error.as_ref().unwrap().as_str();
    assert!(
        error.contains("not a task of the queue work: unknown variant `Unknown`"),
        "{error}"
    );
    let job = client
        .publish_raw("raw", *b"a\xffb", "image/png")
        .retain(HOUR)
        .await
        .unwrap();
    shown(&job, |job| job.state == JobState::Done).await;
    worker.stop().await;
    // One each; a task that cannot be read reaches the layers, too.
    assert_eq!(calls.load(Ordering::Relaxed), 10);
}

/// A value that panics when it is dropped.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

async fn panic_with_a_panic(_: Job) -> Result<(), Fail> {
    std::panic::panic_any(PanicsInDrop)
}

#[tokio::test]
async fn a_panic_with_a_value_that_panics_is_a_failure_too() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "handlers-panic").await;
    retry_after_an_hour(&client).await;
    let worker = Worker::new(client.clone()).handle_raw("work", panic_with_a_panic);
    let worker = RunningWorker::start(worker, LIMIT);
    let publishing = client.publish_raw("work", "x", "text/plain");
    let job = publishing.await.unwrap();
    let details = shown(&job, |job| job.failures == 1).await;
    let error = details.history[0].error.as_ref().unwrap().as_str();
    assert!(error.contains("the handler panicked"), "{error}");
    worker.stop().await;
}

#[tokio::test]
async fn a_handler_that_runs_too_long_has_failed() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "handlers-max-run").await;
    retry_after_an_hour(&client).await;
    let worker = Worker::new(client.clone())
        .handle(work)
        .data(Seen::default());
    let worker = RunningWorker::start(worker.max_run(Duration::from_millis(300)), LIMIT);
    let job = client.publish(Work::Hang).await.unwrap();
    let details = shown(&job, |job| job.failures == 1).await;
    let error = details.history[0].error.as_ref().unwrap().as_str();
    assert!(error.contains("did not end within 300ms"), "{error}");
    worker.stop().await;
}

#[tokio::test]
async fn the_trace_parent_of_the_producer_reaches_the_worker() {
    let stack = SERVER.acquire().await;
    let (_, native) = clients(&stack, "handlers-trace").await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let builder = Client::builder(stack.api(0).url())
        .key(native.key())
        .namespace("handlers-trace");
    let client = builder
        .trace_parent(|| Some(parent.to_owned()))
        .build()
        .unwrap();
    let (sender, mut seen) = tokio::sync::mpsc::channel(8);
    let worker = Worker::new(client.clone()).handle_raw("q", move |job: Job| {
        let sender = sender.clone();
        async move {
            sender
                .try_send(job.attribute("traceparent").map(str::to_owned))
                .map_err(Fail::from)
        }
    });
    let worker = RunningWorker::start(worker, LIMIT);
    client.publish_raw("q", "x", "text/plain").await.unwrap();
    client
        .publish_batch([tidegate::BatchJob::raw("q", "x", "text/plain")])
        .await
        .unwrap();
    for _ in 0..2 {
        assert_eq!(seen.recv().await.unwrap().as_deref(), Some(parent));
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_that_cannot_run_says_why() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "handlers-setup").await;
    let error = async |worker: Worker| {
        let run = worker.run_until(std::future::pending()).into_future();
        let ended = tokio::time::timeout(LIMIT, run).await;
        ended.expect("the worker ends").unwrap_err().to_string()
    };
    let worker = || Worker::new(client.clone());
    assert!(error(worker()).await.contains("add .handle("));
    assert!(
        error(worker().handle(work))
            .await
            .contains("add it with .data(")
    );
    let twice = worker().handle(work).handle(work).data(Seen::default());
    assert!(error(twice).await.contains("two handlers"));
    assert!(
        error(worker().handle_raw("a b", raw))
            .await
            .contains("name of a queue")
    );
    assert!(
        error(
            worker()
                .handle_raw("a", raw)
                .lease(Duration::from_millis(1))
        )
        .await
        .contains("lease")
    );
    let builder = Client::builder(stack.api(0).url()).namespace("n");
    let wrong = builder
        .key("tg_AAAAAAAAAAAA_00000000000000000000000000")
        .build()
        .unwrap();
    assert!(
        error(Worker::new(wrong).handle_raw("q", raw))
            .await
            .contains("key_invalid")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_listed_with_its_name_or_that_of_its_process() {
    let stack = SERVER.acquire().await;
    let (client, native) = clients(&stack, "named").await;
    let worker = || Worker::new(client.clone()).handle_raw("q", raw);
    let running = [worker(), worker().name("mailer-7")];
    let running = running.map(|worker| RunningWorker::start(worker, HOUR));
    let pid = format!(":{}", std::process::id());
    eventually("both are listed", LIMIT, async || {
        let page = native.get("/workers").await.expect(200).json();
        let items = page["items"].as_array().unwrap().iter();
        let names: Vec<&str> = items.map(|it| it["worker"].as_str().unwrap()).collect();
        let of_process = |name: &&&str| name.ends_with(&pid) && name.len() > pid.len();
        let is_listed = names.contains(&"mailer-7") && names.iter().filter(of_process).count() == 1;
        match is_listed && names.len() == 2 {
            true => Ok(()),
            false => Err(page.clone()),
        }
    })
    .await;
    for worker in running {
        worker.stop().await;
    }
}
