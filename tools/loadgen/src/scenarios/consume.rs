use std::cell::{Cell, RefCell};
use std::time::Instant;

use clap::Args;
use futures_util::future::try_join_all;

use crate::error::LoadgenError;
use crate::load_clients::{FillOptions, LoadConsumer, fill, record_latency};
use crate::report::{Goal, latencies};
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::protocol::Wire;

/// Four times the rate of lmstfy on the same kind of machine.
const GOAL: Goal = Goal::AtLeast(20_000.0);

/// The flags of `consume`.
#[derive(Debug, Clone, Args)]
pub struct ConsumeOptions {
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Jobs to publish first, then to consume
    #[arg(long, default_value_t = 200_000)]
    jobs: u64,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
    /// Number of queues that the jobs are spread over
    #[arg(long, default_value_t = 1)]
    queues: usize,
}

impl ConsumeOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = RequestSchedule::describe(0.0, self.connections);
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("body bytes", self.body_bytes);
        run.report.parameter("queues", self.queues);
        let queues = run.queues("consume", self.queues);
        let filling = FillOptions {
            body_bytes: self.body_bytes,
            ..FillOptions::new(&queues, self.jobs)
        };
        fill(run, filling, || 0).await?;
        let connections = run.connections(self.connections).await?;
        let (consume, ack) = (RefCell::new(latencies()), RefCell::new(latencies()));
        let requests = Cell::new(0_u64);
        let bar = run.progress("consuming", self.jobs);
        let meter = run.meter()?;
        let here = &*run;
        let work = connections
            .into_iter()
            .enumerate()
            .map(|(number, connection)| {
                let (consume, ack, requests, bar) = (&consume, &ack, &requests, &bar);
                let mut consumer =
                    LoadConsumer::new(here, connection, &queues[number % queues.len()], 1, 0);
                async move {
                    loop {
                        let begin = Instant::now();
                        requests.set(requests.get() + 2);
                        if consumer.consume(|_| ()).await? == 0 {
                            return Ok::<_, LoadgenError>(());
                        }
                        record_latency(consume, begin);
                        let begin = Instant::now();
                        consumer.ack().await?;
                        record_latency(ack, begin);
                        bar.inc(1);
                    }
                }
            });
        try_join_all(work).await?;
        let usage = meter.read()?;
        bar.finish_and_clear();
        let jobs = run.jobs.borrow().delivered_count() as f64;
        let goal = (run.requests.wire == Wire::Lmstfy).then_some(GOAL);
        let report = &mut run.report;
        report.rate("consume + ack", jobs / usage.seconds, goal);
        report.latency("consume latency", &consume.into_inner(), &[]);
        report.latency("ack latency", &ack.into_inner(), &[]);
        report.cpu("consume + ack", &usage, jobs, requests.get() as f64);
        Ok(())
    }
}
