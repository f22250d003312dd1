use std::cell::RefCell;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join_all;

use super::pending::Pending;
use crate::Error;
use crate::crew::{Consumer, publish_one, record};
use crate::pace::Pace;
use crate::report::{Goal, Series, latencies};
use crate::run::Run;
use crate::wire::PublishRequest;

const GOAL: Goal = Goal::AtMost(1.5);

/// Looks of a second each for a job that must be there.
const LOOKS_MAX: u32 = 20;

/// The flags of `growth`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How many jobs are pending at each measurement, smallest first
    #[arg(long, value_delimiter = ',', default_value = "10000,1000000")]
    levels: Vec<u64>,
    /// How long to publish, consume and acknowledge at each level, in seconds
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
}

impl Options {
    pub(crate) async fn run(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.report.load = Pace::shown(0.0, self.connections);
        run.report.parameter("levels", format!("{:?}", self.levels));
        run.report.parameter("seconds", self.seconds);
        let mut pending = Pending::fill(run, 0, 16).await?;
        let (mut there, mut costs) = (0, Vec::new());
        for level in &self.levels {
            pending.add(run, level.saturating_sub(there)).await?;
            there = there.max(*level);
            costs.push((*level as f64, self.measure(run, *level).await?));
        }
        if let (Some((_, first)), Some((_, last))) = (costs.first(), costs.last())
            && *first > 0.0
        {
            run.report.aimed(
                "cost at the last level / at the first",
                last / first,
                "",
                GOAL,
            );
        }
        run.report.series.push(Series {
            name: "growth".to_owned(),
            x: "jobs pending".to_owned(),
            y: "CPU ms per 1000 jobs".to_owned(),
            points: costs,
        });
        pending.check(run).await
    }

    /// Each connection publishes a job, consumes one and acknowledges it, over and over. Answers the CPU
    /// ms per 1000 jobs of all server processes.
    async fn measure(&self, run: &mut Run<'_>, level: u64) -> Result<f64, Error> {
        let queue = run.queue(&format!("growth-{level}"));
        let bar = run.progress(
            &format!("working with {level} pending for {} s", self.seconds),
            0,
        );
        let connections = run.connections(self.connections * 2).await?;
        let pace = Pace::new(Duration::from_secs_f64(self.seconds), 0.0);
        let latencies = RefCell::new(latencies());
        let meter = run.meter()?;
        let before = run.ledger.borrow().delivered_count();
        let here = &*run;
        let mut connections = connections.into_iter();
        let mut work = Vec::new();
        while let (Some(mut producer), Some(consumer)) = (connections.next(), connections.next()) {
            let (queue, pace, latencies) = (&queue, &pace, &latencies);
            let mut consumer = Consumer::new(here, consumer, queue, 1, 1);
            work.push(async move {
                let mut request = PublishRequest::new(here.requests.clone(), 100);
                while pace.next().await.is_some() {
                    let begin = Instant::now();
                    publish_one(here, &mut producer, &mut request, queue, 0).await?;
                    // As many consumes as publishes, so one of them is for each.
                    let mut looks = 0;
                    while consumer.consume(|_| ()).await? == 0 && looks < LOOKS_MAX {
                        looks += 1;
                    }
                    consumer.ack().await?;
                    record(latencies, begin);
                }
                Ok::<_, Error>(())
            });
        }
        try_join_all(work).await?;
        let usage = meter.read()?;
        bar.finish_and_clear();
        let jobs = (run.ledger.borrow().delivered_count() - before) as f64;
        let what = format!("at {level} pending");
        run.report
            .figure(format!("{what}: jobs"), jobs / usage.seconds, "jobs/s");
        run.report.latency(
            &format!("{what}: publish to acknowledged"),
            &latencies.into_inner(),
            &[],
        );
        run.report.cpu(&what, &usage, jobs, jobs * 3.0);
        Ok(usage.servers() / jobs * 1e6)
    }
}
