use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join_all;

use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::load_clients::{drain, record_latency};
use crate::report::latencies;
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::native;
use crate::wire::publish_request::{KeyOption, PublishRequest};

/// Longest time between a request and the end of its connection, in ms. Some of these requests are executed, some are
/// not.
const CUT_AFTER_MS_MAX: u64 = 5;

/// The flags of `idempotent`.
#[derive(Debug, Clone, Args)]
pub struct IdempotentOptions {
    /// Jobs to publish
    #[arg(long, default_value_t = 1_000_000)]
    jobs: u64,
    /// Part of the requests whose connection is closed before the answer arrives
    #[arg(long, default_value_t = 0.1)]
    cut: f64,
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Number of queues that the jobs are spread over
    #[arg(long, default_value_t = 16)]
    queues: usize,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
}

#[derive(Debug, Default)]
struct ReplayCounts {
    /// Requests whose answer was not awaited.
    cuts: Cell<u64>,
    /// Requests that the server had executed before.
    replays: Cell<u64>,
}

fn increment(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

impl IdempotentOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        if !(0.0..=0.9).contains(&self.cut) {
            return Err(LoadgenError::Usage("--cut must be 0 to 0.9".to_owned()));
        }
        run.report.load = RequestSchedule::describe(0.0, self.connections);
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("cut", self.cut);
        run.report.parameter("queues", self.queues);
        run.report.parameter("body bytes", self.body_bytes);
        let queues = run.queues("idempotent", self.queues);
        let connections = run.connections(self.connections).await?;
        let (left, counts) = (Cell::new(self.jobs), ReplayCounts::default());
        let latencies = RefCell::new(latencies());
        let bar = run.progress(&format!("publishing {} jobs", self.jobs), self.jobs);
        let meter = run.meter()?;
        let here = &*run;
        let work = connections.into_iter().map(|mut connection| {
            let (left, counts, latencies, bar, queues) =
                (&left, &counts, &latencies, &bar, &queues);
            let requests = here.requests.clone();
            let mut request =
                PublishRequest::with_keys(requests, self.body_bytes, KeyOption::IdempotencyKey);
            async move {
                while let Some(rest) = left.get().checked_sub(1) {
                    left.set(rest);
                    let label = here.jobs.borrow_mut().next_label(0);
                    let queue = &queues[label.number as usize % queues.len()];
                    let bytes = request.one(queue, label);
                    let begin = Instant::now();
                    self.publish(here, &mut connection, bytes, counts).await?;
                    record_latency(latencies, begin);
                    here.jobs.borrow_mut().record_published(1);
                    bar.inc(1);
                }
                Ok::<_, LoadgenError>(())
            }
        });
        try_join_all(work).await?;
        let usage = meter.read()?;
        bar.finish_and_clear();
        run.check_sizes(&queues).await?;
        let (jobs, cuts, replays) = (self.jobs as f64, counts.cuts.get(), counts.replays.get());
        if replays > cuts {
            let defect = format!("{replays} requests were replays, but {cuts} were repeated");
            run.jobs.borrow_mut().record_defect(defect);
        }
        let report = &mut run.report;
        report.figure("publish", jobs / usage.seconds, "jobs/s");
        report.figure("answers cut", cuts as f64, "");
        report.figure("replays", replays as f64, "");
        report.latency("publish with its repetitions", &latencies.into_inner(), &[]);
        report.cpu("publish", &usage, jobs, jobs + cuts as f64);
        drain(run, &queues).await
    }

    /// Sends a request until an answer arrives.
    async fn publish(
        &self,
        run: &ScenarioRun<'_>,
        connection: &mut HttpConnection,
        request: &[u8],
        counts: &ReplayCounts,
    ) -> Result<(), LoadgenError> {
        while rand::random_bool(self.cut) {
            increment(&counts.cuts);
            connection.send(request).await?;
            let after = rand::random_range(0..=CUT_AFTER_MS_MAX);
            if after > 0 {
                tokio::time::sleep(Duration::from_millis(after)).await;
            }
            *connection = HttpConnection::open(run.server.address, 0).await?;
        }
        let answer = connection.exchange(request).await?;
        let published = match answer.status {
            200 | 201 => native::published(answer.body)?,
            status => return Err(LoadgenError::unexpected("publish", status, answer.body)),
        };
        if published.replayed != (answer.status == 200) {
            return Err(LoadgenError::unexpected(
                "publish",
                answer.status,
                answer.body,
            ));
        }
        if published.replayed {
            increment(&counts.replays);
        }
        Ok(())
    }
}
