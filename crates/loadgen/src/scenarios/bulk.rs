use clap::Args;
use futures_util::future::try_join_all;

use crate::error::LoadgenError;
use crate::load_clients::{BULK, FillOptions, LoadConsumer, TAKE, fill};
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;

/// The flags of `bulk`.
#[derive(Debug, Clone, Args)]
pub struct BulkOptions {
    /// Connections, each with one request at a time (acknowledgements of one answer are pipelined)
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Jobs to publish and consume
    #[arg(long, default_value_t = 200_000)]
    jobs: u64,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
}

impl BulkOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = RequestSchedule::describe(0.0, self.connections);
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("body bytes", self.body_bytes);
        let queues = run.queues("bulk", 1);
        let jobs = self.jobs as f64;

        let meter = run.meter()?;
        let filling = FillOptions {
            body_bytes: self.body_bytes,
            connections: self.connections,
            ..FillOptions::new(&queues, self.jobs)
        };
        fill(run, filling, || 0).await?;
        let publish = meter.read()?;
        run.report
            .figure("publish", jobs / publish.seconds, "jobs/s");
        run.report
            .cpu("publish", &publish, jobs, jobs / BULK as f64);

        let connections = run.connections(self.connections).await?;
        let here = &*run;
        let mut consumers: Vec<_> = connections
            .into_iter()
            .map(|connection| LoadConsumer::new(here, connection, &queues[0], TAKE, 0))
            .collect();
        let meter = here.meter()?;
        try_join_all(consumers.iter_mut().map(consume_and_ack)).await?;
        let consume = meter.read()?;
        let meter = here.meter()?;
        try_join_all(consumers.iter_mut().map(LoadConsumer::ack)).await?;
        let ack = meter.read()?;
        drop(consumers);

        let report = &mut run.report;
        report.figure("consume", jobs / consume.seconds, "jobs/s");
        report.cpu("consume", &consume, jobs, jobs / TAKE as f64);
        report.figure("ack", jobs / ack.seconds, "jobs/s");
        report.cpu("ack", &ack, jobs, jobs);
        let all = publish.seconds + consume.seconds + ack.seconds;
        report.figure("publish + consume + ack", jobs / all, "jobs/s");
        Ok(())
    }
}

async fn consume_and_ack(consumer: &mut LoadConsumer<'_>) -> Result<(), LoadgenError> {
    while consumer.consume(|_| ()).await? > 0 {}
    Ok(())
}
