//! Publishers and consumers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tidegate::api::consume::{AckItem, LeasedJobView, QueueChoice, ReserveBody};
use tidegate::api::values::{DurationMs, MaxJobs};
use tidegate::{BatchJob, Client, Error};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::arguments::BenchArguments;
use crate::failure::CommandFailure;

/// How long a consumer waits for jobs in one request.
const RESERVE_WAIT: DurationMs = DurationMs::saturating(200);
/// How long a task waits after a request that failed.
const RETRY_DELAY: Duration = Duration::from_millis(100);
const CONTENT_TYPE: &str = "application/octet-stream";
/// Latencies are in microseconds, up to ten minutes, with three digits.
const LATENCY_MAX_US: u64 = 600_000_000;
const DIGITS: u8 = 3;

/// The state that all tasks share.
pub(super) struct BenchLoad {
    client: Client,
    queue: String,
    body: ReserveBody,
    payload_bytes: usize,
    batch: u16,
    begin: Instant,
    is_publishing: AtomicBool,
    is_consuming: AtomicBool,
    /// Counts that go up while the load runs.
    published: AtomicU64,
    consumed: AtomicU64,
    /// The same counts, of the time in which jobs were published.
    in_time: [AtomicU64; 2],
    /// Publishers whose last request may still be in flight.
    publishers: AtomicU64,
    failed: Notify,
}

/// The counts of one task, or of all tasks.
#[derive(Debug)]
pub(super) struct LoadCounts {
    pub(super) publish: Histogram<u64>,
    pub(super) ack: Histogram<u64>,
    pub(super) delivery: Histogram<u64>,
    /// Requests that failed and were sent again.
    pub(super) errors: u64,
    pub(super) published: u64,
    pub(super) consumed: u64,
    pub(super) published_in_time: u64,
    pub(super) consumed_in_time: u64,
}

impl Default for LoadCounts {
    fn default() -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, LATENCY_MAX_US, DIGITS).expect("the bounds are valid");
        Self {
            publish: histogram(),
            ack: histogram(),
            delivery: histogram(),
            errors: 0,
            published: 0,
            consumed: 0,
            published_in_time: 0,
            consumed_in_time: 0,
        }
    }
}

impl LoadCounts {
    pub(super) fn add(&mut self, other: &Self) {
        for (all, part) in [
            (&mut self.publish, &other.publish),
            (&mut self.ack, &other.ack),
            (&mut self.delivery, &other.delivery),
        ] {
            all.add(part).expect("all histograms have the same bounds");
        }
        self.errors += other.errors;
    }
}

/// A publisher or a consumer.
pub(super) type LoadTask = JoinHandle<Result<LoadCounts, CommandFailure>>;

impl BenchLoad {
    pub(super) fn new(
        client: Client,
        queue: &str,
        arguments: &BenchArguments,
    ) -> Result<Self, Error> {
        let choice = QueueChoice {
            name: queue.parse()?,
            weight: None,
        };
        let max_jobs: MaxJobs = arguments.batch;
        Ok(Self {
            client,
            queue: queue.to_owned(),
            body: ReserveBody {
                max_jobs,
                wait: RESERVE_WAIT,
                ..ReserveBody::new(vec![choice])
            },
            payload_bytes: arguments.payload_bytes as usize,
            batch: max_jobs.get(),
            begin: Instant::now(),
            is_publishing: AtomicBool::new(true),
            is_consuming: AtomicBool::new(true),
            published: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            in_time: [AtomicU64::new(0), AtomicU64::new(0)],
            publishers: AtomicU64::new(0),
            failed: Notify::new(),
        })
    }

    pub(super) fn queue(&self) -> &str {
        &self.queue
    }

    /// Starts a task for each connection: publishers and consumers in turn.
    pub(super) fn start(self: &Arc<Self>, connections: u16) -> Vec<LoadTask> {
        self.publishers
            .store(u64::from(connections.div_ceil(2)), Ordering::Relaxed);
        let task = |number: u16| -> LoadTask {
            let load = Arc::clone(self);
            tokio::spawn(async move {
                let ended = match number % 2 {
                    0 => {
                        let ended = load.publish().await;
                        load.publishers.fetch_sub(1, Ordering::Relaxed);
                        ended
                    }
                    _ => load.consume().await,
                };
                if ended.is_err() {
                    load.failed.notify_one();
                }
                ended
            })
        };
        (0..connections).map(task).collect()
    }

    /// Completes when a task has failed.
    pub(super) async fn failed(&self) {
        self.failed.notified().await;
        // The next task that waits has to know it, too.
        self.failed.notify_one();
    }

    /// Returns for how many seconds jobs were published.
    pub(super) fn stop_publishing(&self) -> f64 {
        let counts = [&self.published, &self.consumed];
        for (in_time, count) in self.in_time.iter().zip(counts) {
            in_time.store(count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.is_publishing.store(false, Ordering::Relaxed);
        self.begin.elapsed().as_secs_f64()
    }

    pub(super) fn stop_consuming(&self) {
        self.is_consuming.store(false, Ordering::Relaxed);
    }

    /// Whether no more jobs are published, and all are acknowledged.
    pub(super) fn is_drained(&self) -> bool {
        let has_publishers = self.publishers.load(Ordering::Relaxed) > 0;
        !has_publishers
            && self.consumed.load(Ordering::Relaxed) >= self.published.load(Ordering::Relaxed)
    }

    /// Adds the shared counts, once all tasks have ended.
    pub(super) fn complete(&self, counts: &mut LoadCounts) {
        counts.published = self.published.load(Ordering::Relaxed);
        counts.consumed = self.consumed.load(Ordering::Relaxed);
        counts.published_in_time = self.in_time[0].load(Ordering::Relaxed);
        counts.consumed_in_time = self.in_time[1].load(Ordering::Relaxed);
    }

    async fn publish(&self) -> Result<LoadCounts, CommandFailure> {
        let mut counts = LoadCounts::default();
        while self.is_publishing.load(Ordering::Relaxed) {
            let begin = Instant::now();
            match self.publish_once().await {
                Ok(()) => {
                    record(&mut counts.publish, begin.elapsed());
                    self.published
                        .fetch_add(self.batch.into(), Ordering::Relaxed);
                }
                Err(error) => counted(error, &mut counts.errors).await?,
            }
        }
        Ok(counts)
    }

    async fn publish_once(&self) -> Result<(), Error> {
        let payload = self.payload();
        if self.batch == 1 {
            let publish = self.client.publish_raw(&self.queue, payload, CONTENT_TYPE);
            return publish.await.map(drop);
        }
        let job = || BatchJob::raw(&self.queue, payload.clone(), CONTENT_TYPE);
        let results = self.client.publish_batch((0..self.batch).map(|_| job()));
        results
            .await?
            .into_iter()
            .try_for_each(|result| result.map(drop))
    }

    /// Begins with the time of the publish, in microseconds since the begin of the load.
    fn payload(&self) -> Vec<u8> {
        let now = u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut payload = now.to_le_bytes().to_vec();
        payload.resize(self.payload_bytes.max(payload.len()), 0);
        payload
    }

    async fn consume(&self) -> Result<LoadCounts, CommandFailure> {
        let mut counts = LoadCounts::default();
        while self.is_consuming.load(Ordering::Relaxed) {
            let jobs = match self.client.reserve(&self.body).await {
                Ok(answer) => answer.jobs,
                Err(error) => {
                    counted(error, &mut counts.errors).await?;
                    continue;
                }
            };
            if jobs.is_empty() {
                continue;
            }
            for job in &jobs {
                self.record_delivery(job, &mut counts.delivery);
            }
            let number = jobs.len() as u64;
            let begin = Instant::now();
            let leases = jobs.into_iter().map(|job| AckItem::from(job.lease));
            match self.client.ack(leases.collect()).await {
                Ok(_) => {
                    record(&mut counts.ack, begin.elapsed());
                    self.consumed.fetch_add(number, Ordering::Relaxed);
                }
                Err(error) => counted(error, &mut counts.errors).await?,
            }
        }
        Ok(counts)
    }

    fn record_delivery(&self, job: &LeasedJobView, delivery: &mut Histogram<u64>) {
        let payload = job.payload_base64.as_ref();
        let stamp = payload.and_then(|payload| payload.0.first_chunk::<8>());
        if let Some(stamp) = stamp {
            let published = Duration::from_micros(u64::from_le_bytes(*stamp));
            record(delivery, self.begin.elapsed().saturating_sub(published));
        }
    }
}

/// Counts an error after which the request may be sent again, and waits.
async fn counted(error: Error, errors: &mut u64) -> Result<(), CommandFailure> {
    if !error.is_temporary() {
        return Err(error.into());
    }
    *errors += 1;
    sleep(RETRY_DELAY).await;
    Ok(())
}

fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    let microseconds = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
    histogram.saturating_record(microseconds.max(1));
}
