use clap::Args;

use super::pending_jobs::PendingJobs;
use crate::error::LoadgenError;
use crate::report::{Curve, Goal};
use crate::run::ScenarioRun;

const BYTES_GOAL: Goal = Goal::AtMost(165.0);
const FALL_GOAL: Goal = Goal::AtMost(15.0);

/// The flags of `memory`.
#[derive(Debug, Clone, Args)]
pub struct MemoryOptions {
    /// Delayed jobs of 100 bytes, due in 1 to 24 hours
    #[arg(long, default_value_t = 1_000_000)]
    jobs: u64,
    /// Number of queues that the jobs are spread over
    #[arg(long, default_value_t = 16)]
    queues: usize,
}

impl MemoryOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = "closed loop, 8 connections, 64 jobs a request".to_owned();
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("queues", self.queues);
        let mut redis = run.server.redis("memory")?;
        let mut memory = || -> Result<(f64, f64), LoadgenError> {
            let used = redis.number("memory", "used_memory")?;
            Ok((used, redis.number("memory", "used_memory_rss")?))
        };
        let before = memory()?;
        let meter = run.meter()?;
        let pending = PendingJobs::fill(run, self.jobs, self.queues).await?;
        let usage = meter.read()?;
        let after = memory()?;
        let jobs = self.jobs as f64;
        let report = &mut run.report;
        report.figure_with_goal(
            "used_memory per job",
            (after.0 - before.0) / jobs,
            "B",
            BYTES_GOAL,
        );
        report.figure("RSS per job", (after.1 - before.1) / jobs, "B");
        report.figure("publish in bulk", jobs / usage.seconds, "jobs/s");
        report.cpu("publish in bulk", &usage, jobs, jobs / 64.0);
        if let Some((first, last)) = first_and_last_rate(&pending.samples) {
            report.figure("publish rate, first tenth", first, "jobs/s");
            report.figure("publish rate, last tenth", last, "jobs/s");
            report.figure_with_goal(
                "publish rate falls by",
                (1.0 - last / first) * 100.0,
                "%",
                FALL_GOAL,
            );
        }
        report.series.push(Curve {
            name: "memory publish rate".to_owned(),
            x: "jobs pending".to_owned(),
            y: "jobs/s".to_owned(),
            points: rates(&pending.samples),
        });
        pending.check(run).await
    }
}

/// Returns the rate between each two successive samples.
fn rates(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let pairs = samples.windows(2);
    pairs
        .map(|pair| (pair[1].0, (pair[1].0 - pair[0].0) / (pair[1].1 - pair[0].1)))
        .collect()
}

fn first_and_last_rate(samples: &[(f64, f64)]) -> Option<(f64, f64)> {
    let tenth = samples.len() / 10;
    let rate = |from: usize, to: usize| {
        let (begin, end) = (samples.get(from)?, samples.get(to)?);
        Some((end.0 - begin.0) / (end.1 - begin.1))
    };
    let last = samples.len().checked_sub(1)?;
    rate(0, tenth.max(1)).zip(rate(last.checked_sub(tenth.max(1))?, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_rate_is_detected() {
        let mut samples: Vec<(f64, f64)> = (0..=10)
            .map(|n| (f64::from(n) * 10.0, f64::from(n)))
            .collect();
        assert_eq!(first_and_last_rate(&samples), Some((10.0, 10.0)));
        samples[10].1 = 11.0;
        assert_eq!(first_and_last_rate(&samples), Some((10.0, 5.0)));
        assert_eq!(rates(&samples)[9], (100.0, 5.0));
        assert_eq!(first_and_last_rate(&[]), None);
    }
}
