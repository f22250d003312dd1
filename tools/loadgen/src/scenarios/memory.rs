use std::time::Duration;

use clap::Args;
use tokio::time::sleep;

use super::pending_jobs::{DELAY_MIN, PendingJobs, PendingKind};
use crate::cpu::CpuUsage;
use crate::error::LoadgenError;
use crate::redis_info::RedisInfo;
use crate::report::Goal;
use crate::run::ScenarioRun;
use crate::wire::protocol::{BULK, Wire};
use crate::wire::publish_request::JobOption;

const FALL_GOAL: Goal = Goal::AtMost(15.0);
const KEY_GOAL: Goal = Goal::AtMost(75.0);
const IDEMPOTENCY_KEY_GOAL: Goal = Goal::AtMost(80.0);
const COLD_GOAL: Goal = Goal::AtMost(75.0);
/// How often it is checked whether all payloads are in the cold tier.
const COLD_PAUSE: Duration = Duration::from_secs(1);
const SPREAD_MIN: Duration = Duration::from_secs(60);
const SPREAD_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The flags of `memory`.
#[derive(Debug, Clone, Args)]
pub struct MemoryOptions {
    /// Delayed jobs
    #[arg(long, default_value_t = 1_000_000)]
    jobs: u64,
    /// Number of queues that the jobs are spread over: 1 = all jobs in one bucket, 1024 = in all buckets
    #[arg(long, default_value_t = 16)]
    queues: usize,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
    /// The jobs are due in an hour, and in a random part of this time after it, such as 70m, 23h, 30d, 365d. On the
    /// wire of lmstfy the jobs of a request are due at the same time
    #[arg(long, default_value = "23h", value_parser = parse_spread)]
    spread: Duration,
    /// Measure jobs without keys first, then as many with a key each, and the difference. Needs --wire native
    #[arg(long, conflicts_with = "idempotent")]
    keyed: bool,
    /// Wait until all payloads are in the cold tier, and measure the memory that is left. Needs --admin, and a server with the
    /// cold tier whose cold_keep is 1m
    #[arg(long, conflicts_with_all = ["keyed", "idempotent"])]
    cold: bool,
    /// Measure jobs without keys first, then as many with an idempotency key each, and the difference. Needs --wire
    /// native
    #[arg(long)]
    idempotent: bool,
}

fn parse_spread(text: &str) -> Result<Duration, String> {
    let spread = tidegate_core::duration::parse(text).map_err(|error| error.to_string())?;
    match (SPREAD_MIN..=SPREAD_MAX).contains(&spread) {
        true => Ok(spread),
        false => Err("must be 1m to 10 years, such as 30d".to_owned()),
    }
}

/// Memory and CPU that jobs took.
struct JobCosts {
    used_bytes: f64,
    resident_bytes: f64,
    usage: CpuUsage,
}

impl MemoryOptions {
    pub(super) const fn has_keys(&self) -> bool {
        self.keyed || self.idempotent
    }

    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!("closed loop, 8 connections, {BULK} jobs a request");
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("queues", self.queues);
        run.report.parameter("body bytes", self.body_bytes);
        let minutes = self.spread.as_secs() / 60;
        run.report.parameter("spread", format!("{minutes}m"));
        let mut redis = run.server.redis("memory")?;
        let spread = u32::try_from(self.spread.as_secs()).unwrap_or(u32::MAX - DELAY_MIN);
        let kind = PendingKind {
            delays: DELAY_MIN..=DELAY_MIN + spread,
            body_bytes: self.body_bytes,
            option: JobOption::None,
        };
        let mut pending = PendingJobs::new(run, kind, self.queues);
        if self.cold {
            self.measure_cold(run, &mut redis, &mut pending).await?;
            return pending.check(run).await;
        }
        let plain = self.measure(run, &mut redis, &mut pending).await?;
        self.print_plain(run, &plain, &pending.samples);
        if self.has_keys() {
            pending.kind.option = match self.keyed {
                true => JobOption::Key,
                false => JobOption::IdempotencyKey,
            };
            let keyed = self.measure(run, &mut redis, &mut pending).await?;
            self.print_keyed(run, &plain, &keyed);
        }
        pending.check(run).await
    }

    /// Publishes the jobs. Returns the memory of each job.
    async fn measure(
        &self,
        run: &ScenarioRun<'_>,
        redis: &mut RedisInfo,
        pending: &mut PendingJobs,
    ) -> Result<JobCosts, LoadgenError> {
        let mut memory = || -> Result<(f64, f64), LoadgenError> {
            let used = redis.number("memory", "used_memory")?;
            Ok((used, redis.number("memory", "used_memory_rss")?))
        };
        let before = memory()?;
        let meter = run.meter()?;
        pending.add(run, self.jobs).await?;
        let usage = meter.read()?;
        let after = memory()?;
        let jobs = self.jobs as f64;
        Ok(JobCosts {
            used_bytes: (after.0 - before.0) / jobs,
            resident_bytes: (after.1 - before.1) / jobs,
            usage,
        })
    }

    /// Publishes the jobs, and waits until all payloads are in the cold tier. Pumps freeze while clients publish, so the
    /// CPU time is the sum of publishing and freezing. A run without a cold tier has the CPU time of publishing.
    async fn measure_cold(
        &self,
        run: &mut ScenarioRun<'_>,
        redis: &mut RedisInfo,
        pending: &mut PendingJobs,
    ) -> Result<(), LoadgenError> {
        let before = redis.number("memory", "used_memory")?;
        let meter = run.meter()?;
        pending.add(run, self.jobs).await?;
        let published = meter.read()?;
        while run.server.frozen_payloads().await? < self.jobs {
            sleep(COLD_PAUSE).await;
        }
        let frozen = meter.read()?;
        let jobs = self.jobs as f64;
        let bytes = (redis.number("memory", "used_memory")? - before) / jobs;
        let report = &mut run.report;
        report.figure_with_goal("used_memory per cold job", bytes, "B", COLD_GOAL);
        report.figure("publish in bulk", jobs / published.seconds, "jobs/s");
        report.figure("until all payloads are cold", frozen.seconds, "s");
        report.cpu("publish and freeze", &frozen, jobs, jobs / BULK as f64);
        Ok(())
    }

    fn print_plain(&self, run: &mut ScenarioRun<'_>, costs: &JobCosts, samples: &[(f64, f64)]) {
        let (report, jobs) = (&mut run.report, self.jobs as f64);
        let name = "used_memory per job";
        match self.goal(run.server.wire) {
            Some(goal) => report.figure_with_goal(name, costs.used_bytes, "B", goal),
            None => report.figure(name, costs.used_bytes, "B"),
        }
        report.figure("RSS per job", costs.resident_bytes, "B");
        let seconds = costs.usage.seconds;
        report.figure("publish in bulk", jobs / seconds, "jobs/s");
        report.cpu("publish in bulk", &costs.usage, jobs, jobs / BULK as f64);
        if let Some((first, last)) = first_and_last_rate(samples) {
            report.figure("publish rate, first tenth", first, "jobs/s");
            report.figure("publish rate, last tenth", last, "jobs/s");
            report.figure_with_goal(
                "publish rate falls by",
                (1.0 - last / first) * 100.0,
                "%",
                FALL_GOAL,
            );
        }
    }

    fn print_keyed(&self, run: &mut ScenarioRun<'_>, plain: &JobCosts, keyed: &JobCosts) {
        let (what, goal) = match self.keyed {
            true => ("key", KEY_GOAL),
            false => ("idempotency key", IDEMPOTENCY_KEY_GOAL),
        };
        let (report, jobs) = (&mut run.report, self.jobs as f64);
        let bytes = keyed.used_bytes;
        report.figure(format!("used_memory per job with {what}"), bytes, "B");
        report.figure_with_goal(
            format!("used_memory for the {what}"),
            bytes - plain.used_bytes,
            "B",
            goal,
        );
        let rate = jobs / keyed.usage.seconds;
        report.figure(format!("publish in bulk with {what}"), rate, "jobs/s");
        let requests = jobs / BULK as f64;
        report.cpu(&format!("with {what}"), &keyed.usage, jobs, requests);
    }

    fn goal(&self, wire: Wire) -> Option<Goal> {
        match (self.body_bytes, wire) {
            (0..=40, Wire::Native) => Some(Goal::AtMost(150.0)),
            (0..=100, _) => Some(Goal::AtMost(165.0)),
            _ => None,
        }
    }
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
    fn a_spread_is_a_time_with_a_unit() {
        assert_eq!(parse_spread("30d").unwrap().as_secs(), 30 * 86_400);
        assert_eq!(parse_spread("70m").unwrap().as_secs(), 70 * 60);
        for bad in ["30", "1s", "20years", "-1d"] {
            assert!(parse_spread(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_falling_rate_is_detected() {
        let mut samples: Vec<(f64, f64)> = (0..=10)
            .map(|n| (f64::from(n) * 10.0, f64::from(n)))
            .collect();
        assert_eq!(first_and_last_rate(&samples), Some((10.0, 10.0)));
        samples[10].1 = 11.0;
        assert_eq!(first_and_last_rate(&samples), Some((10.0, 5.0)));
        assert_eq!(first_and_last_rate(&[]), None);
    }
}
