use clap::Args;
use futures_util::future::try_join_all;

use crate::error::LoadgenError;
use crate::load_clients::{FillOptions, LoadConsumer, fill};
use crate::report::Goal;
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::protocol::{BULK, Wire};
use crate::wire::publish_request::JobOption;

/// Goals of the native wire, in jobs per second.
const PUBLISH_GOAL: Goal = Goal::AtLeast(100_000.0);
const RESERVE_GOAL: Goal = Goal::AtLeast(90_000.0);
const ACK_GOAL: Goal = Goal::AtLeast(90_000.0);

/// The flags of `bulk`.
#[derive(Debug, Clone, Args)]
pub struct BulkOptions {
    /// Connections, each with one request at a time (on the wire of lmstfy the acknowledgements of one answer are
    /// pipelined)
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Jobs to publish and consume
    #[arg(long, default_value_t = 200_000)]
    jobs: u64,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
    /// Publish each job with a key, which no other job has. Only on the native wire
    #[arg(long)]
    pub(super) keyed: bool,
}

impl BulkOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = RequestSchedule::describe(0.0, self.connections);
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("body bytes", self.body_bytes);
        run.report.parameter("keyed", self.keyed);
        let queues = run.queues("bulk", 1);
        let jobs = self.jobs as f64;
        let (wire, keyed) = (run.requests.wire, self.keyed);
        let goal = |goal: Goal| (wire == Wire::Native && !keyed).then_some(goal);

        let meter = run.meter()?;
        let filling = FillOptions {
            body_bytes: self.body_bytes,
            connections: self.connections,
            option: match keyed {
                true => JobOption::Key,
                false => JobOption::None,
            },
            ..FillOptions::new(&queues, self.jobs)
        };
        fill(run, filling, || 0).await?;
        let publish = meter.read()?;
        run.report
            .rate("publish", jobs / publish.seconds, goal(PUBLISH_GOAL));
        run.report
            .cpu("publish", &publish, jobs, jobs / BULK as f64);

        let take = wire.jobs_per_consume();
        let connections = run.connections(self.connections).await?;
        let here = &*run;
        let mut consumers: Vec<_> = connections
            .into_iter()
            .map(|connection| LoadConsumer::new(here, connection, &queues[0], take, 0))
            .collect();
        let meter = here.meter()?;
        try_join_all(consumers.iter_mut().map(consume_everything)).await?;
        let consume = meter.read()?;
        let meter = here.meter()?;
        try_join_all(consumers.iter_mut().map(LoadConsumer::ack)).await?;
        let ack = meter.read()?;
        drop(consumers);

        let report = &mut run.report;
        report.rate("consume", jobs / consume.seconds, goal(RESERVE_GOAL));
        report.cpu("consume", &consume, jobs, jobs / take as f64);
        report.rate("ack", jobs / ack.seconds, goal(ACK_GOAL));
        let ack_requests = match wire {
            Wire::Lmstfy => jobs,
            Wire::Native => jobs / take as f64,
        };
        report.cpu("ack", &ack, jobs, ack_requests);
        let all = publish.seconds + consume.seconds + ack.seconds;
        report.figure("publish + consume + ack", jobs / all, "jobs/s");
        Ok(())
    }
}

async fn consume_everything(consumer: &mut LoadConsumer<'_>) -> Result<(), LoadgenError> {
    while consumer.consume(|_| ()).await? > 0 {}
    Ok(())
}
