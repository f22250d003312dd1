//! Measures how many empty jobs a second a worker runs, against a server that is running.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use serde::{Deserialize, Serialize};
use tidegate::{Client, Data, Fail, Task, Worker};
use tokio::sync::Notify;

/// The most jobs of one batch.
const BATCH: u64 = 1_000;

#[derive(Debug, Parser)]
struct Flags {
    /// URL of the server
    #[arg(long, default_value = "http://127.0.0.1:7777")]
    url: String,
    /// API key with the scopes publish and consume
    #[arg(long, env = "TG_KEY", hide_env_values = true)]
    key: String,
    /// Namespace of the key
    #[arg(long, default_value = "demo")]
    namespace: String,
    /// Number of jobs
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
    /// Jobs that run at the same time
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Jobs that wait for a slot
    #[arg(long, default_value_t = 64)]
    prefetch: usize,
}

#[derive(Serialize, Deserialize)]
struct Nothing {
    number: u64,
}

impl Task for Nothing {
    const QUEUE: &'static str = "throughput";
    type Reply = ();
}

#[derive(Debug, Default)]
struct Progress {
    done: AtomicU64,
    all_done: Notify,
}

async fn count(_: Nothing, progress: Data<Arc<Progress>>, jobs: Data<u64>) -> Result<(), Fail> {
    if progress.done.fetch_add(1, Ordering::Relaxed) + 1 == *jobs {
        progress.all_done.notify_one();
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), tidegate::Error> {
    let flags = Flags::parse();
    let client = Client::builder(flags.url)
        .key(flags.key)
        .namespace(flags.namespace)
        .build()?;
    let begin = Instant::now();
    let mut first = 0;
    while first < flags.jobs {
        let next = flags.jobs.min(first + BATCH);
        client
            .publish_batch((first..next).map(|number| Nothing { number }))
            .await?;
        first = next;
    }
    print_rate("published", flags.jobs, begin.elapsed());
    let progress = Arc::new(Progress::default());
    let stop = Arc::clone(&progress);
    let begin = Instant::now();
    Worker::new(client)
        .handle(count)
        .data(Arc::clone(&progress))
        .data(flags.jobs)
        .concurrency(flags.concurrency)
        .prefetch(flags.prefetch)
        .run_until(async move {
            stop.all_done.notified().await;
            print_rate("ran", flags.jobs, begin.elapsed());
        })
        .await
}

fn print_rate(what: &str, jobs: u64, took: Duration) {
    let rate = jobs as f64 / took.as_secs_f64();
    println!(
        "{what} {jobs} jobs in {:.2} s: {rate:.0} jobs/s",
        took.as_secs_f64()
    );
}
