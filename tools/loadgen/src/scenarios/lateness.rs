use std::cell::RefCell;
use std::time::{Duration, Instant};

use clap::Args;

use super::pending_jobs::PendingJobs;
use crate::error::LoadgenError;
use crate::load_clients::{SingleJobs, consume_all, publish};
use crate::report::{Goal, latencies};
use crate::request_schedule::RequestSchedule;
use crate::run::ScenarioRun;
use crate::wire::publish_request::JobOption;

/// The goals apply up to this rate, in jobs per second.
const RATE_OF_GOALS: f64 = 1000.0;
const GOALS: [(f64, f64); 2] = [(0.5, 3.0), (0.99, 15.0)];
/// Seconds between the last publish and the first due time.
const BREATH: u32 = 2;

/// The flags of `lateness`.
#[derive(Debug, Clone, Args)]
pub struct LatenessOptions {
    /// Delayed jobs that are stored during the measurement
    #[arg(long, default_value_t = 1_000_000)]
    pending: u64,
    /// Jobs due per second; a list measures one rate after another
    #[arg(long, value_delimiter = ',', default_value = "1000,5000")]
    rates: Vec<f64>,
    /// Seconds during which jobs become due at each rate
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Connections that consume and acknowledge, one job per request
    #[arg(long, default_value_t = 64)]
    consumers: usize,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
}

impl LatenessOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!(
            "open loop: due times at a fixed rate; {} consumers",
            self.consumers
        );
        run.report.parameter("pending", self.pending);
        run.report.parameter("seconds", self.seconds);
        let pending = PendingJobs::fill(run, self.pending, 16).await?;
        for rate in &self.rates {
            self.at_rate(run, *rate).await?;
        }
        pending.check(run).await?;
        let early = run.jobs.borrow().early_count() as f64;
        run.report
            .figure_with_goal("early", early, "jobs", Goal::AtMost(0.0));
        run.check_clocks();
        Ok(())
    }

    /// Publishes all jobs one by one at the rate, so that they then become due at the same rate.
    async fn at_rate(&self, run: &mut ScenarioRun<'_>, rate: f64) -> Result<(), LoadgenError> {
        let queues = run.queues(&format!("lateness-{rate}-"), 1);
        let delay = self.seconds + BREATH;
        let length = Duration::from_secs(self.seconds.into());
        let bar = run.progress(&format!("publishing {rate}/s for {} s", self.seconds), 0);
        let begin = Instant::now();
        let singles = SingleJobs {
            queues: &queues,
            connections: self.consumers,
            body_bytes: self.body_bytes,
            delay,
            option: JobOption::None,
        };
        publish(run, singles, || RequestSchedule::new(length, rate)).await?;
        bar.finish_and_clear();
        if begin.elapsed() > length + Duration::from_secs(1) {
            run.report.remarks.push(format!(
                "the server did not sustain {rate} publishes/s: they took {:.1} s instead of {}",
                begin.elapsed().as_secs_f64(),
                self.seconds
            ));
        }
        let lateness = RefCell::new(latencies());
        let jobs = run.jobs.borrow().outstanding() as f64;
        let meter = run.meter()?;
        consume_all(run, &queues, self.consumers, 1, |job| {
            lateness.borrow_mut().saturating_record(job.lateness_us());
        })
        .await?;
        let usage = meter.read()?;
        let goals = if rate <= RATE_OF_GOALS {
            &GOALS[..]
        } else {
            &[]
        };
        let what = format!("lateness at {rate}/s");
        run.report.latency(&what, &lateness.into_inner(), goals);
        run.report.cpu(&what, &usage, jobs, jobs * 2.0);
        Ok(())
    }
}
