use std::cell::RefCell;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join_all;

use super::pending_jobs::PendingJobs;
use crate::error::LoadgenError;
use crate::load_clients::{LoadConsumer, publish_one, record_latency};
use crate::report::{Curve, Goal, latencies};
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::publish_request::PublishRequest;

const GOAL: Goal = Goal::AtMost(1.5);

/// Largest number of long polls, of a second each, for a job that was published.
const LOOKS_MAX: u32 = 20;

/// The flags of `growth`.
#[derive(Debug, Clone, Args)]
pub struct GrowthOptions {
    /// Number of pending jobs at each measurement, in ascending order
    #[arg(long, value_delimiter = ',', default_value = "10000,1000000")]
    levels: Vec<u64>,
    /// Seconds to publish, consume and acknowledge at each level
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Pairs of connections, one to publish and one to consume, each with one request at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
}

impl GrowthOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = RequestSchedule::describe(0.0, self.connections);
        run.report.parameter("levels", format!("{:?}", self.levels));
        run.report.parameter("seconds", self.seconds);
        let mut pending = PendingJobs::fill(run, 0, 16).await?;
        let (mut there, mut costs) = (0, Vec::new());
        for level in &self.levels {
            pending.add(run, level.saturating_sub(there)).await?;
            there = there.max(*level);
            costs.push((*level as f64, self.measure(run, *level).await?));
        }
        if let (Some((_, first)), Some((_, last))) = (costs.first(), costs.last())
            && *first > 0.0
        {
            run.report.figure_with_goal(
                "cost at the last level / at the first",
                last / first,
                "",
                GOAL,
            );
        }
        run.report.series.push(Curve {
            name: "growth".to_owned(),
            x: "jobs pending".to_owned(),
            y: "CPU ms per 1000 jobs".to_owned(),
            points: costs,
        });
        pending.check(run).await
    }

    /// Each pair of connections publishes a job, consumes one and acknowledges it, in a loop. Returns
    /// the CPU ms per 1000 jobs of all server processes.
    async fn measure(&self, run: &mut ScenarioRun<'_>, level: u64) -> Result<f64, LoadgenError> {
        let queue = run.queue(&format!("growth-{level}"));
        let bar = run.progress(
            &format!("working with {level} pending for {} s", self.seconds),
            0,
        );
        let connections = run.connections(self.connections * 2).await?;
        let pace = RequestSchedule::new(Duration::from_secs_f64(self.seconds), 0.0);
        let latencies = RefCell::new(latencies());
        let meter = run.meter()?;
        let before = run.jobs.borrow().delivered_count();
        let here = &*run;
        let mut connections = connections.into_iter();
        let mut work = Vec::new();
        while let (Some(mut producer), Some(consumer)) = (connections.next(), connections.next()) {
            let (queue, pace, latencies) = (&queue, &pace, &latencies);
            let mut consumer = LoadConsumer::new(here, consumer, queue, 1, 1);
            work.push(async move {
                let mut request = PublishRequest::new(here.requests.clone(), 100);
                while pace.next().await.is_some() {
                    let begin = Instant::now();
                    publish_one(here, &mut producer, &mut request, queue, 0).await?;
                    // There are as many consumes as publishes, so each gets a job.
                    let mut looks = 0;
                    while consumer.consume(|_| ()).await? == 0 && looks < LOOKS_MAX {
                        looks += 1;
                    }
                    consumer.ack().await?;
                    record_latency(latencies, begin);
                }
                Ok::<_, LoadgenError>(())
            });
        }
        try_join_all(work).await?;
        let usage = meter.read()?;
        bar.finish_and_clear();
        let jobs = (run.jobs.borrow().delivered_count() - before) as f64;
        let what = format!("at {level} pending");
        run.report
            .figure(format!("{what}: jobs"), jobs / usage.seconds, "jobs/s");
        run.report.latency(
            &format!("{what}: publish to acknowledged"),
            &latencies.into_inner(),
            &[],
        );
        run.report.cpu(&what, &usage, jobs, jobs * 3.0);
        Ok(usage.server_seconds() / jobs * 1e6)
    }
}
