use std::time::Duration;

use clap::Args;

use crate::error::LoadgenError;
use crate::load_clients::{SingleJobs, consume_all, publish};
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::publish_request::JobOption;

const WHOLE: &str = "publish + consume + ack";

/// The flags of `lanes`.
#[derive(Debug, Clone, Args)]
pub struct LanesOptions {
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Seconds to publish; then all jobs are consumed
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
    /// Lanes of the queue if several Redis nodes are named (`--pid redis-1=… --pid redis-2=…`); otherwise 1
    #[arg(long, default_value_t = 8)]
    lanes: u16,
    /// Publish each job with a key, which no other job has
    #[arg(long)]
    pub(super) keyed: bool,
}

impl LanesOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        let nodes: Vec<String> = run
            .server
            .redis_process_names()
            .map(str::to_owned)
            .collect();
        let lanes = if nodes.len() > 1 { self.lanes } else { 1 };
        run.report.load = RequestSchedule::describe(0.0, self.connections);
        run.report.parameter("lanes", lanes);
        run.report.parameter("nodes", nodes.len());
        run.report.parameter("body bytes", self.body_bytes);
        run.report.parameter("keyed", self.keyed);
        let queues = run.queues("lanes", 1);
        if lanes > 1 {
            run.server.set_lanes(&queues[0], lanes).await?;
        }
        let meter = run.meter()?;
        let pace = || RequestSchedule::new(Duration::from_secs(self.seconds.into()), 0.0);
        let singles = SingleJobs {
            queues: &queues,
            connections: self.connections,
            body_bytes: self.body_bytes,
            delay: 0,
            option: match self.keyed {
                true => JobOption::Key,
                false => JobOption::None,
            },
        };
        publish(run, singles, pace).await?;
        let published = meter.read()?;
        let consuming = run.meter()?;
        consume_all(run, &queues, self.connections, 1, |_| ()).await?;
        let consumed = consuming.read()?;
        let whole = meter.read()?;
        let jobs = run.jobs.borrow().delivered_count() as f64;
        let report = &mut run.report;
        report.figure("publish", jobs / published.seconds, "jobs/s");
        report.cpu("publish", &published, jobs, jobs);
        report.cpu("consume + ack", &consumed, jobs, jobs * 2.0);
        report.cpu(WHOLE, &whole, jobs, jobs * 3.0);
        let cost = |node: &str| whole.of_process(node).unwrap_or_default();
        let all: f64 = nodes.iter().map(|node| cost(node)).sum();
        for node in &nodes {
            let share = cost(node) / all * 100.0;
            report.figure(format!("share of {node}"), share, "% of all nodes");
        }
        Ok(())
    }
}
