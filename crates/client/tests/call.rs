//! Calls that wait for the reply of a worker.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{CallError, Client, Fail, Job, JobReply, JobState, Task, Worker};
use tidegate_testkit::{NativeClient, Stack};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Sum {
    Of(u32, u32),
    Never,
    Dead,
}

impl Task for Sum {
    const QUEUE: &'static str = "sums";
    type Reply = u32;
}

async fn sum(task: Sum) -> Result<u32, Fail> {
    match task {
        Sum::Of(a, b) => Ok(a + b),
        Sum::Never => std::future::pending().await,
        Sum::Dead => Err(Fail::dead("no sum")),
    }
}

async fn echo(job: Job) -> Result<JobReply, Fail> {
    match job.payload() {
        b"" => Ok(JobReply::default()),
        bytes => JobReply::bytes(bytes, job.content_type()),
    }
}

fn start(client: &Client) -> (oneshot::Sender<()>, JoinHandle<Result<(), tidegate::Error>>) {
    let (stop, stopped) = oneshot::channel();
    let worker = Worker::new(client.clone())
        .handle(sum)
        .handle_raw("echo", echo);
    let run = worker
        .run_until(async move { drop(stopped.await) })
        .grace(Duration::ZERO);
    (stop, tokio::spawn(run.into_future()))
}

#[tokio::test]
async fn a_call_returns_the_reply_or_why_there_is_none() {
    let stack = Stack::builder().start().await;
    let native = NativeClient::new(stack.api(0), "calls").await;
    let builder = Client::builder(stack.api(0).url()).key(native.key());
    let client = builder.namespace("calls").build().unwrap();
    let (stop, run) = start(&client);

    assert_eq!(client.publish(Sum::Of(2, 3)).call(LIMIT).await.unwrap(), 5);
    let patient = client.publish(Sum::Of(3, 3)).call(Duration::MAX);
    assert_eq!(patient.await.unwrap(), 6);
    let image = client
        .publish_raw("echo", *b"a\xffb", "image/png")
        .call_raw(LIMIT)
        .await
        .unwrap();
    assert_eq!(
        (&image.bytes[..], image.content_type.as_deref()),
        (&b"a\xffb"[..], Some("image/png"))
    );
    let none = client
        .publish_raw("echo", "", "text/plain")
        .call_raw(LIMIT)
        .await
        .unwrap();
    none.json::<()>().unwrap();

    let dead = client.publish(Sum::Dead).call(LIMIT).await.unwrap_err();
    assert!(matches!(dead, CallError::Dead { .. }), "{dead}");
    let late = client
        .publish(Sum::Never)
        .call(Duration::from_millis(500))
        .await
        .unwrap_err();
    let CallError::TimedOut { job } = late else {
        panic!("{late}");
    };
    assert_eq!(job.show().await.unwrap().state, JobState::Leased);

    // A worker that starts later than the call does not matter, and a cancel ends the wait.
    drop(stop);
    run.await.unwrap().unwrap();
    let waiting = client.publish(Sum::Of(1, 1)).key("one").retain(LIMIT);
    let waiting = tokio::spawn(async move { waiting.call(LIMIT).await });
    let by_key = client
        .queue(Sum::QUEUE)
        .unwrap()
        .job_with_key("one")
        .unwrap();
    tidegate_testkit::eventually("the job is cancelled", LIMIT, async || {
        match by_key.cancel().await.unwrap() {
            tidegate::CancelResult::Cancelled { .. } => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let cancelled = waiting.await.unwrap().unwrap_err();
    assert!(matches!(cancelled, CallError::Cancelled), "{cancelled}");
    let later = client.publish(Sum::Of(4, 4)).retain(LIMIT).await.unwrap();
    assert_eq!(
        later.result(Duration::from_millis(100)).await.unwrap(),
        None
    );
    let (_stop, _run) = start(&client);
    let result = later.result(LIMIT).await.unwrap().unwrap();
    assert_eq!(result.json::<u32>().unwrap(), 8);
}

/// A server that is stopped gives no answer.
#[tokio::test]
async fn a_call_ends_although_the_server_gives_no_answer() {
    let stack = Stack::builder().pumps(0).start().await;
    let native = NativeClient::new(stack.api(0), "calls").await;
    let builder = Client::builder(stack.api(0).url()).key(native.key());
    let client = builder.namespace("calls").build().unwrap();
    stack.api(0).pause();
    for call in [
        client.publish(Sum::Of(2, 3)),
        client.publish(Sum::Of(2, 3)).key("a"),
    ] {
        let calling = call.call(Duration::from_secs(1));
        let ended = tokio::time::timeout(LIMIT, calling).await;
        let error = ended.expect("the call ends").unwrap_err();
        let is_definite = matches!(error, CallError::Request(tidegate::Error::NoAnswer(_)));
        assert!(is_definite, "{error}");
    }
    stack.api(0).resume();
}
