use std::cell::RefCell;
use std::time::{Duration, Instant};

use clap::Args;

use super::pending::Pending;
use crate::Error;
use crate::crew::{consume_all, publish};
use crate::pace::Pace;
use crate::report::{Goal, latencies};
use crate::run::Run;

/// At up to this rate the goals hold.
const RATE_OF_GOALS: f64 = 1000.0;
const GOALS: [(f64, f64); 2] = [(0.5, 3.0), (0.99, 15.0)];
/// Between the last publish and the first due time, in seconds.
const BREATH: u32 = 2;

/// The flags of `lateness`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Delayed jobs that are there all the time
    #[arg(long, default_value_t = 1_000_000)]
    pending: u64,
    /// Jobs due a second; several rates one after another
    #[arg(long, value_delimiter = ',', default_value = "1000,5000")]
    rates: Vec<f64>,
    /// How long jobs become due at each rate, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Connections that consume and acknowledge, one job a request
    #[arg(long, default_value_t = 64)]
    consumers: usize,
    /// Bytes of a job's body, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
}

impl Options {
    pub(crate) async fn run(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.report.load = format!(
            "open loop: due times at a fixed rate; {} consumers",
            self.consumers
        );
        run.report.parameter("pending", self.pending);
        run.report.parameter("seconds", self.seconds);
        let pending = Pending::fill(run, self.pending, 16).await?;
        for rate in &self.rates {
            self.at_rate(run, *rate).await?;
        }
        pending.check(run).await?;
        let early = run.ledger.borrow().early_count() as f64;
        run.report.aimed("early", early, "jobs", Goal::AtMost(0.0));
        run.check_clocks();
        Ok(())
    }

    /// First all jobs are published, one by one at the rate, then they become due at the same rate.
    async fn at_rate(&self, run: &mut Run<'_>, rate: f64) -> Result<(), Error> {
        let queues = run.queues(&format!("lateness-{rate}-"), 1);
        let delay = self.seconds + BREATH;
        let length = Duration::from_secs(self.seconds.into());
        let bar = run.progress(&format!("publishing {rate}/s for {} s", self.seconds), 0);
        let begin = Instant::now();
        publish(run, &queues, self.consumers, self.body_bytes, delay, || {
            Pace::new(length, rate)
        })
        .await?;
        bar.finish_and_clear();
        if begin.elapsed() > length + Duration::from_secs(1) {
            run.report.remarks.push(format!(
                "{rate}/s could not be published: it took {:.1} s instead of {}",
                begin.elapsed().as_secs_f64(),
                self.seconds
            ));
        }
        let lateness = RefCell::new(latencies());
        let jobs = run.ledger.borrow().outstanding() as f64;
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
