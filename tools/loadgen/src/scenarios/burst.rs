use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join_all;

use crate::clock::now_us;
use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::job_stream::{JobStream, STREAM_CONNECTIONS};
use crate::job_tracker::DeliveredJob;
use crate::load_clients::{FillOptions, drain, fill};
use crate::report::{Goal, Latencies, latencies};
use crate::run::ScenarioRun;

const GOAL: Goal = Goal::AtLeast(66_000.0);
const OTHER_GOALS: [(f64, f64); 1] = [(0.99, 50.0)];
/// Jobs due per second in each other queue.
const OTHER_RATE: f64 = 100.0;
/// How many seconds before and after the burst jobs become due there.
const OTHER_BEFORE: u64 = 2;
const OTHER_AFTER: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The flags of `burst`.
#[derive(Debug, Clone, Args)]
pub struct BurstOptions {
    /// Jobs due in the same second
    #[arg(long, default_value_t = 200_000)]
    jobs: u64,
    /// Number of queues that the jobs are spread over; a list runs one burst per number
    #[arg(long, value_delimiter = ',', default_value = "1,100")]
    queues: Vec<usize>,
    /// Publish rate that the server sustains, in jobs per second: decides how far ahead the burst is due
    #[arg(long, default_value_t = 5000)]
    publish_rate: u64,
    /// Number of buckets of the deployment, to also measure a queue in the bucket of the burst; 0 = do not
    #[arg(long, default_value_t = 256)]
    buckets: u32,
}

impl BurstOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!(
            "all due in one second; other queues with {OTHER_RATE} due/s, {STREAM_CONNECTIONS} consumers each"
        );
        run.report.parameter("jobs", self.jobs);
        for queues in &self.queues {
            self.burst(run, *queues).await?;
        }
        run.check_clocks();
        Ok(())
    }

    async fn burst(&self, run: &mut ScenarioRun<'_>, count: usize) -> Result<(), LoadgenError> {
        let queues = run.queues(&format!("burst-{count}-"), count);
        let mut others = vec![SideQueue::new(
            "elsewhere",
            run.queue(&format!("other-{count}-")),
        )];
        if self.buckets > 0 {
            let name = format!("beside-{count}-");
            let beside = run.queue_in_bucket_of(&run.full_name(&queues[0]), &name, self.buckets)?;
            others.push(SideQueue::new("in the same bucket", beside));
        }
        let lead = self.jobs.div_ceil(self.publish_rate) + 2 + OTHER_BEFORE;
        let due_us = now_us() + lead * 1_000_000;
        // Delays are whole seconds, rounded up, so every job is due within one second from `due_us`.
        let delay =
            || u32::try_from((due_us - now_us().min(due_us)).div_ceil(1_000_000)).unwrap_or(1);
        fill(run, FillOptions::new(&queues, self.jobs), delay).await?;
        let other_begin_us = due_us - OTHER_BEFORE * 1_000_000;
        let left_us = other_begin_us.checked_sub(now_us());
        let left_us = left_us.ok_or_else(|| LoadgenError::TooSlow(format!(
            "the server accepted fewer than {} jobs per second: lower --publish-rate to a rate that it sustains",
            self.publish_rate
        )))?;
        run.pause("waiting for the burst", Duration::from_micros(left_us))
            .await;

        let meter = run.meter()?;
        let here = &*run;
        let until_us = Cell::new(u64::MAX);
        let is_during = |job: &DeliveredJob| (due_us..until_us.get()).contains(&job.due_us());
        let watching = async {
            let drained = poll_sizes(here, &queues, self.jobs, due_us).await;
            until_us.set(now_us());
            drained
        };
        let working = try_join_all(others.iter().map(|other| other.run(here, is_during)));
        let (drained, worked) = tokio::join!(watching, working);
        worked?;
        let drained = drained?;
        let usage = meter.read()?;
        drain(run, &queues).await?;
        self.print(run, count, drained, &others, &usage);
        Ok(())
    }

    fn print(
        &self,
        run: &mut ScenarioRun<'_>,
        count: usize,
        seconds: f64,
        others: &[SideQueue],
        usage: &crate::cpu::CpuUsage,
    ) {
        let report = &mut run.report;
        let jobs = self.jobs as f64;
        report.figure(
            format!("{count} queues: drained to ready after"),
            seconds,
            "s",
        );
        report.figure_with_goal(
            format!("{count} queues: drained to ready"),
            jobs / seconds,
            "jobs/s",
            GOAL,
        );
        for other in others {
            report.latency(
                &format!("{count} queues: lateness {}", other.location),
                &other.latenesses.borrow(),
                &OTHER_GOALS,
            );
        }
        report.cpu(&format!("{count} queues"), usage, jobs, jobs);
    }
}

/// Polls the sizes of the queues until all jobs are ready. Returns the seconds since the due time.
async fn poll_sizes(
    run: &ScenarioRun<'_>,
    queues: &[String],
    jobs: u64,
    due_us: u64,
) -> Result<f64, LoadgenError> {
    let mut connection = HttpConnection::open(run.server.address, 0).await?;
    tokio::time::sleep(Duration::from_micros(due_us.saturating_sub(now_us()))).await;
    let begin = Instant::now();
    let bar = run.progress("becoming ready", jobs);
    loop {
        let mut ready = 0;
        for queue in queues {
            ready += run.size(&mut connection, queue).await?;
        }
        bar.set_position(ready);
        if ready >= jobs {
            bar.finish_and_clear();
            return Ok(begin.elapsed().as_secs_f64());
        }
        if begin.elapsed() > PATIENCE {
            return Err(LoadgenError::TooSlow(format!(
                "only {ready} of {jobs} jobs were ready {PATIENCE:?} after the first was due"
            )));
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// A queue beside the burst, to measure how the burst affects it. Its jobs are due one second after they
/// are published, and are consumed immediately.
struct SideQueue {
    location: &'static str,
    queue: String,
    latenesses: RefCell<Latencies>,
}

impl SideQueue {
    fn new(phase: &'static str, queue: String) -> Self {
        Self {
            location: phase,
            queue,
            latenesses: RefCell::new(latencies()),
        }
    }

    async fn run(
        &self,
        run: &ScenarioRun<'_>,
        is_during: impl Fn(&DeliveredJob) -> bool,
    ) -> Result<(), LoadgenError> {
        let stream = JobStream {
            queue: &self.queue,
            rate: OTHER_RATE,
            length: Duration::from_secs(OTHER_BEFORE + OTHER_AFTER),
            delay: 1,
        };
        let note = |job: &DeliveredJob| {
            if is_during(job) {
                let mut latenesses = self.latenesses.borrow_mut();
                latenesses.saturating_record(job.lateness_us());
            }
        };
        stream.run(run, note).await.map(drop)
    }
}
