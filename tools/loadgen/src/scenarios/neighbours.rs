use std::cell::{Cell, RefCell};
use std::time::Duration;

use clap::Args;
use futures_util::future::{try_join, try_join_all};

use crate::error::LoadgenError;
use crate::job_stream::{JobStream, STREAM_CONNECTIONS};
use crate::job_tracker::DeliveredJob;
use crate::load_clients::{FillOptions, LoadConsumer, drain, fill, publish_one};
use crate::report::latencies;
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::publish_request::PublishRequest;

/// Largest number of large bodies in flight.
const MOVERS: usize = 8;
/// Connections that drain the huge queue in bulk.
const EMPTIERS: usize = 2;
const GOALS: [(f64, f64); 1] = [(0.99, 20.0)];

/// The flags of `neighbours`.
#[derive(Debug, Clone, Args)]
pub struct NeighboursOptions {
    /// Seconds to measure beside each neighbour
    #[arg(long, default_value_t = 8)]
    seconds: u32,
    /// Jobs per second in the measured queue
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// Size of a large body in bytes
    #[arg(long, default_value_t = 1 << 20)]
    body_bytes: usize,
    /// Jobs with large bodies per second in the neighbouring queue
    #[arg(long, default_value_t = 40.0)]
    large_rate: f64,
    /// Ready jobs in the huge queue
    #[arg(long, default_value_t = 1_000_000)]
    huge: u64,
}

impl NeighboursOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!(
            "open loop, {}/s over {STREAM_CONNECTIONS} connections, beside others",
            self.rate
        );
        run.report.parameter("seconds", self.seconds);
        run.report.parameter("body bytes", self.body_bytes);
        run.report.parameter("large rate", self.large_rate);
        run.report.parameter("huge", self.huge);
        self.beside(run, "alone", async |_| Ok(0)).await?;
        let large = run.queue("large");
        let moving = async |run: &ScenarioRun<'_>| self.move_large_bodies(run, &large).await;
        self.beside(run, "beside large bodies", moving).await?;
        drain(run, std::slice::from_ref(&large)).await?;
        let huge = run.queues("huge", 1);
        fill(run, FillOptions::new(&huge, self.huge), || 0).await?;
        self.beside(run, "beside a huge queue", async |_| Ok(0))
            .await?;
        let emptying = async |run: &ScenarioRun<'_>| self.empty(run, &huge[0]).await;
        self.beside(run, "beside a huge queue that is emptied", emptying)
            .await?;
        drain(run, &huge).await?;
        run.check_clocks();
        Ok(())
    }

    const fn length(&self) -> Duration {
        Duration::from_secs(self.seconds as u64)
    }

    /// Measures the latency of small jobs while `busy` runs. `busy` returns how many jobs it moved.
    async fn beside(
        &self,
        run: &mut ScenarioRun<'_>,
        what: &str,
        busy: impl AsyncFn(&ScenarioRun<'_>) -> Result<u64, LoadgenError>,
    ) -> Result<(), LoadgenError> {
        let queue = run.queue("small");
        let stream = JobStream {
            queue: &queue,
            rate: self.rate,
            length: self.length(),
            delay: 0,
        };
        let arrivals = RefCell::new(latencies());
        let note = |job: &DeliveredJob| arrivals.borrow_mut().saturating_record(job.lateness_us());
        let bar = run.progress(what, 0);
        let meter = run.meter()?;
        let here = &*run;
        let (published, moved) = try_join(stream.run(here, note), busy(here)).await?;
        let usage = meter.read()?;
        bar.finish_and_clear();
        let jobs = self.rate * usage.seconds;
        let report = &mut run.report;
        report.latency(&format!("{what}: publish"), &published, &GOALS);
        let arrivals = arrivals.into_inner();
        report.latency(&format!("{what}: published to received"), &arrivals, &GOALS);
        report.cpu(what, &usage, jobs, jobs);
        if moved > 0 {
            let moved = moved as f64 / usage.seconds;
            report.figure(format!("{what}: jobs of the neighbour"), moved, "jobs/s");
        }
        Ok(())
    }

    /// Publishes and consumes jobs with large bodies. Returns their number.
    async fn move_large_bodies(
        &self,
        run: &ScenarioRun<'_>,
        queue: &str,
    ) -> Result<u64, LoadgenError> {
        let connections = run.connections(2 * MOVERS).await?;
        let pace = RequestSchedule::new(self.length(), self.large_rate);
        let moved = Cell::new(0);
        let mut pairs = connections.into_iter();
        let mut work = Vec::new();
        while let (Some(mut producing), Some(consuming)) = (pairs.next(), pairs.next()) {
            let (pace, moved) = (&pace, &moved);
            work.push(async move {
                let mut request = PublishRequest::new(run.requests.clone(), self.body_bytes);
                let mut consumer = LoadConsumer::new(run, consuming, queue, 1, 1);
                while pace.next().await.is_some() {
                    publish_one(run, &mut producing, &mut request, queue, 0).await?;
                    consumer.consume(|_| ()).await?;
                    consumer.ack().await?;
                    moved.set(moved.get() + 1);
                }
                Ok::<_, LoadgenError>(())
            });
        }
        try_join_all(work).await?;
        Ok(moved.get())
    }

    /// Drains a huge queue as fast as possible. Returns the number of consumed jobs.
    async fn empty(&self, run: &ScenarioRun<'_>, queue: &str) -> Result<u64, LoadgenError> {
        let pace = RequestSchedule::new(self.length(), 0.0);
        let taken = Cell::new(0);
        let work = run.connections(EMPTIERS).await?.into_iter().map(|it| {
            let (pace, taken) = (&pace, &taken);
            let mut consumer =
                LoadConsumer::new(run, it, queue, run.requests.wire.jobs_per_consume(), 0);
            async move {
                while pace.next().await.is_some() {
                    let jobs = consumer.consume(|_| ()).await? as u64;
                    taken.set(taken.get() + jobs);
                    consumer.ack().await?;
                }
                Ok::<_, LoadgenError>(())
            }
        });
        try_join_all(work).await?;
        Ok(taken.get())
    }
}
