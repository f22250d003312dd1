use std::cell::Cell;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join_all;

use super::pending_jobs::PendingJobs;
use crate::error::LoadgenError;
use crate::load_clients::{LoadConsumer, publish_one};
use crate::redis_info::RedisInfo;
use crate::report::{Curve, Goal};
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::publish_request::PublishRequest;

/// How much more memory than before may stay in use, in percent.
const LEFT_GOAL: Goal = Goal::AtMost(1.0);
const BODY_BYTES: usize = 100;
const PENDING_QUEUES: usize = 16;
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The flags of `reply-queues`.
#[derive(Debug, Clone, Args)]
pub struct ReplyQueuesOptions {
    /// Queues, each used for one job: publish, consume, ack
    #[arg(long, default_value_t = 1_000_000)]
    queues: u64,
    /// Delayed jobs in other queues, which are stored before and after
    #[arg(long, default_value_t = 1_000_000)]
    pending: u64,
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Longest time to wait until the pumps have removed the queues, in seconds. A queue is removed 2 to 3 minutes
    /// after its last job
    #[arg(long, default_value_t = 900)]
    patience: u32,
}

impl ReplyQueuesOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = RequestSchedule::describe(0.0, self.connections);
        run.report.parameter("queues", self.queues);
        run.report.parameter("pending", self.pending);
        let mut redis = run.server.redis("reply-queues")?;
        let pending = PendingJobs::fill(run, self.pending, PENDING_QUEUES).await?;
        let used = |redis: &mut RedisInfo| redis.number("memory", "used_memory");
        let before = used(&mut redis)?;
        let meter = run.meter()?;
        self.use_queues(run).await?;
        let usage = meter.read()?;
        let most = used(&mut redis)?;

        let bar = run.progress("waiting until the queues are removed", 0);
        let begin = Instant::now();
        let percent_more = |bytes: f64| (bytes / before - 1.0) * 100.0;
        let mut samples = vec![(0.0, most)];
        let mut left = most;
        while !LEFT_GOAL.is_reached(percent_more(left))
            && begin.elapsed().as_secs() < self.patience.into()
        {
            tokio::time::sleep(LOOK_PAUSE).await;
            left = used(&mut redis)?;
            samples.push((begin.elapsed().as_secs_f64(), left));
        }
        bar.finish_and_clear();
        let waited = begin.elapsed().as_secs_f64();

        let (report, queues) = (&mut run.report, self.queues as f64);
        report.figure("queues", queues / usage.seconds, "queues/s");
        report.cpu("publish + consume + ack", &usage, queues, queues * 3.0);
        report.figure("used_memory before", before, "B");
        report.figure("used_memory per queue", (most - before) / queues, "B");
        report.figure("until the queues were removed", waited, "s");
        report.figure_with_goal(
            "used_memory more than before",
            percent_more(left),
            "%",
            LEFT_GOAL,
        );
        report.series.push(Curve {
            name: "reply queues memory".to_owned(),
            x: "seconds since the last ack".to_owned(),
            y: "B".to_owned(),
            points: samples,
        });
        pending.check(run).await
    }

    /// Uses each queue for one job.
    async fn use_queues(&self, run: &ScenarioRun<'_>) -> Result<(), LoadgenError> {
        let bar = run.progress(&format!("using {} queues", self.queues), self.queues);
        let next = Cell::new(0);
        let prefix = run.queue_prefix("reply");
        let producing = run.connections(self.connections).await?;
        let consuming = run.connections(self.connections).await?;
        let work = producing
            .into_iter()
            .zip(consuming)
            .map(|(mut producer, mut consuming)| {
                let (next, bar, prefix) = (&next, &bar, &prefix);
                async move {
                    let mut request = PublishRequest::new(run.requests.clone(), BODY_BYTES);
                    while next.get() < self.queues {
                        let queue = format!("{prefix}-{}", next.get());
                        next.set(next.get() + 1);
                        publish_one(run, &mut producer, &mut request, &queue, 0).await?;
                        let mut consumer = LoadConsumer::new(run, consuming, &queue, 1, 0);
                        consumer.consume(|_| ()).await?;
                        consumer.ack().await?;
                        consuming = consumer.into_connection();
                        bar.inc(1);
                    }
                    Ok::<_, LoadgenError>(())
                }
            });
        try_join_all(work).await?;
        bar.finish_and_clear();
        Ok(())
    }
}
