use std::time::Duration;

use clap::Args;

use crate::Error;
use crate::crew::{drain, publish};
use crate::pace::Pace;
use crate::report::Goal;
use crate::run::Run;

/// Four times what lmstfy manages on such a machine.
const GOAL: Goal = Goal::AtLeast(34_000.0);

/// The flags of `publish`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// How long to publish, in seconds
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Requests a second (open loop); 0 = as fast as answers come (closed loop)
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// Bytes of a job's body, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
    /// Queues that the jobs are spread over
    #[arg(long, default_value_t = 1)]
    queues: usize,
    /// Delay of each job in seconds; 0 = ready at once
    #[arg(long, default_value_t = 0)]
    delay: u32,
}

impl Options {
    pub(crate) async fn run(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.report.load = Pace::shown(self.rate, self.connections);
        run.report.parameter("seconds", self.seconds);
        run.report.parameter("body bytes", self.body_bytes);
        run.report.parameter("queues", self.queues);
        run.report.parameter("delay", self.delay);
        let queues = run.queues("publish", self.queues);
        let bar = run.progress(&format!("publishing for {} s", self.seconds), 0);
        let meter = run.meter()?;
        let pace = || Pace::new(Duration::from_secs_f64(self.seconds), self.rate);
        let latencies = publish(
            run,
            &queues,
            self.connections,
            self.body_bytes,
            self.delay,
            pace,
        )
        .await?;
        let usage = meter.read()?;
        bar.finish_and_clear();
        let jobs = run.ledger.borrow().published_count() as f64;
        run.report
            .aimed("publish", jobs / usage.seconds, "jobs/s", GOAL);
        run.report.latency("publish latency", &latencies, &[]);
        run.report.cpu("publish", &usage, jobs, jobs);
        if self.delay == 0 {
            check_sizes(run, &queues).await?;
        }
        drain(run, &queues).await
    }
}

/// Before anything is consumed all of it is there.
async fn check_sizes(run: &Run<'_>, queues: &[String]) -> Result<(), Error> {
    let mut connections = run.connections(1).await?;
    let mut there = 0;
    for queue in queues {
        there += run.size(&mut connections[0], queue).await?;
    }
    let published = run.ledger.borrow().published_count();
    if there != published {
        let defect = format!("{published} jobs were published, and the queues hold {there}");
        run.ledger.borrow_mut().defect(defect);
    }
    Ok(())
}
