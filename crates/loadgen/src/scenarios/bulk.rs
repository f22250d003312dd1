use clap::Args;
use futures_util::future::try_join_all;

use crate::Error;
use crate::crew::{BULK, Consumer, Filling, TAKE, fill};
use crate::pace::Pace;
use crate::run::Run;

/// The flags of `bulk`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Connections, each with one request at a time (acknowledgements of one answer follow each other)
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Jobs to publish, and to consume
    #[arg(long, default_value_t = 200_000)]
    jobs: u64,
    /// Bytes of a job's body, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
}

impl Options {
    pub(crate) async fn run(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.report.load = Pace::shown(0.0, self.connections);
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("body bytes", self.body_bytes);
        let queues = run.queues("bulk", 1);
        let jobs = self.jobs as f64;

        let meter = run.meter()?;
        let filling = Filling {
            body_bytes: self.body_bytes,
            connections: self.connections,
            ..Filling::of(&queues, self.jobs)
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
            .map(|connection| Consumer::new(here, connection, &queues[0], TAKE, 0))
            .collect();
        let meter = here.meter()?;
        try_join_all(consumers.iter_mut().map(take)).await?;
        let consume = meter.read()?;
        let meter = here.meter()?;
        try_join_all(consumers.iter_mut().map(Consumer::ack)).await?;
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

async fn take(consumer: &mut Consumer<'_>) -> Result<(), Error> {
    while consumer.consume(|_| ()).await? > 0 {}
    Ok(())
}
