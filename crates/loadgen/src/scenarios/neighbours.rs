use std::cell::{Cell, RefCell};
use std::time::Duration;

use clap::Args;
use futures_util::future::{try_join, try_join_all};

use crate::Error;
use crate::crew::{Consumer, Filling, TAKE, drain, fill, publish_one};
use crate::ledger::Delivered;
use crate::pace::Pace;
use crate::report::latencies;
use crate::run::Run;
use crate::stream::{STREAM_CONNECTIONS, Stream};
use crate::wire::PublishRequest;

/// Large bodies that may be on their way at once.
const MOVERS: usize = 8;
/// Connections that empty the huge queue, a bulk at a time.
const EMPTIERS: usize = 2;
const GOALS: [(f64, f64); 1] = [(0.99, 20.0)];

/// The flags of `neighbours`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How long each neighbour is borne, in seconds
    #[arg(long, default_value_t = 8)]
    seconds: u32,
    /// Jobs a second in the queue whose latency is measured
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// Bytes of a large body
    #[arg(long, default_value_t = 1 << 20)]
    body_bytes: usize,
    /// Jobs with large bodies a second in the next queue
    #[arg(long, default_value_t = 40.0)]
    large_rate: f64,
    /// Ready jobs in the huge queue
    #[arg(long, default_value_t = 1_000_000)]
    huge: u64,
}

impl Options {
    pub(crate) async fn run(&self, run: &mut Run<'_>) -> Result<(), Error> {
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
        let moving = async |run: &Run<'_>| self.move_large_bodies(run, &large).await;
        self.beside(run, "beside large bodies", moving).await?;
        drain(run, std::slice::from_ref(&large)).await?;
        let huge = run.queues("huge", 1);
        fill(run, Filling::of(&huge, self.huge), || 0).await?;
        self.beside(run, "beside a huge queue", async |_| Ok(0))
            .await?;
        let emptying = async |run: &Run<'_>| self.empty(run, &huge[0]).await;
        self.beside(run, "beside a huge queue that is emptied", emptying)
            .await?;
        drain(run, &huge).await?;
        run.check_clocks();
        Ok(())
    }

    const fn length(&self) -> Duration {
        Duration::from_secs(self.seconds as u64)
    }

    /// The latency of small jobs while `busy` goes on, which answers how many jobs it moved.
    async fn beside(
        &self,
        run: &mut Run<'_>,
        what: &str,
        busy: impl AsyncFn(&Run<'_>) -> Result<u64, Error>,
    ) -> Result<(), Error> {
        let queue = run.queue("small");
        let stream = Stream {
            queue: &queue,
            rate: self.rate,
            length: self.length(),
            delay: 0,
        };
        let arrivals = RefCell::new(latencies());
        let note = |job: &Delivered| arrivals.borrow_mut().saturating_record(job.lateness_us());
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

    /// Large bodies go in and out.
    async fn move_large_bodies(&self, run: &Run<'_>, queue: &str) -> Result<u64, Error> {
        let connections = run.connections(2 * MOVERS).await?;
        let pace = Pace::new(self.length(), self.large_rate);
        let moved = Cell::new(0);
        let mut pairs = connections.into_iter();
        let mut work = Vec::new();
        while let (Some(mut producing), Some(consuming)) = (pairs.next(), pairs.next()) {
            let (pace, moved) = (&pace, &moved);
            work.push(async move {
                let mut request = PublishRequest::new(run.requests.clone(), self.body_bytes);
                let mut consumer = Consumer::new(run, consuming, queue, 1, 1);
                while pace.next().await.is_some() {
                    publish_one(run, &mut producing, &mut request, queue, 0).await?;
                    consumer.consume(|_| ()).await?;
                    consumer.ack().await?;
                    moved.set(moved.get() + 1);
                }
                Ok::<_, Error>(())
            });
        }
        try_join_all(work).await?;
        Ok(moved.get())
    }

    /// Jobs go out of a huge queue as fast as they can.
    async fn empty(&self, run: &Run<'_>, queue: &str) -> Result<u64, Error> {
        let pace = Pace::new(self.length(), 0.0);
        let taken = Cell::new(0);
        let work = run.connections(EMPTIERS).await?.into_iter().map(|it| {
            let (pace, taken) = (&pace, &taken);
            let mut consumer = Consumer::new(run, it, queue, TAKE, 0);
            async move {
                while pace.next().await.is_some() {
                    let jobs = consumer.consume(|_| ()).await? as u64;
                    taken.set(taken.get() + jobs);
                    consumer.ack().await?;
                }
                Ok::<_, Error>(())
            }
        });
        try_join_all(work).await?;
        Ok(taken.get())
    }
}
