use std::time::Duration;

use clap::Args;

use crate::error::LoadgenError;
use crate::load_clients::{SingleJobs, drain, publish};
use crate::report::Goal;
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::protocol::Wire;
use crate::wire::publish_request::JobOption;

/// Four times the rate of lmstfy on the same kind of machine.
const GOAL: Goal = Goal::AtLeast(34_000.0);

/// The flags of `publish`.
#[derive(Debug, Clone, Args)]
pub struct PublishOptions {
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Seconds to publish
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Requests per second (open loop); 0 = as fast as answers arrive (closed loop)
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
    /// Number of queues that the jobs are spread over
    #[arg(long, default_value_t = 1)]
    queues: usize,
    /// Delay of each job in seconds; 0 = ready immediately
    #[arg(long, default_value_t = 0)]
    delay: u32,
    /// Publish each job with a key, which no other job has. On the wire of lmstfy, which has no keys, without one: to
    /// compare, give `--wire lmstfy --vs-wire native`
    #[arg(long)]
    pub(super) keyed: bool,
}

impl PublishOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = RequestSchedule::describe(self.rate, self.connections);
        run.report.parameter("seconds", self.seconds);
        run.report.parameter("body bytes", self.body_bytes);
        run.report.parameter("queues", self.queues);
        run.report.parameter("delay", self.delay);
        run.report.parameter("keyed", self.keyed);
        let queues = run.queues("publish", self.queues);
        let bar = run.progress(&format!("publishing for {} s", self.seconds), 0);
        let meter = run.meter()?;
        let pace = || RequestSchedule::new(Duration::from_secs_f64(self.seconds), self.rate);
        let singles = SingleJobs {
            queues: &queues,
            connections: self.connections,
            body_bytes: self.body_bytes,
            delay: self.delay,
            option: match self.keyed {
                true => JobOption::Key,
                false => JobOption::None,
            },
        };
        let latencies = publish(run, singles, pace).await?;
        let usage = meter.read()?;
        bar.finish_and_clear();
        let jobs = run.jobs.borrow().published_count() as f64;
        let goal = (run.requests.wire == Wire::Lmstfy).then_some(GOAL);
        run.report.rate("publish", jobs / usage.seconds, goal);
        run.report.latency("publish latency", &latencies, &[]);
        run.report.cpu("publish", &usage, jobs, jobs);
        if self.delay == 0 {
            run.check_sizes(&queues).await?;
        }
        drain(run, &queues).await
    }
}
