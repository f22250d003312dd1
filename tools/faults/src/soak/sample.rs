//! The measurements at regular intervals.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_testkit::RedisControl;

use super::calculation::calculation_time;
use super::deployment::{PROCESSES, SoakDeployment};
use super::process_usage::{ProcessUsage, process_usage};
use super::scrape::ScrapeCounts;
use super::state::SoakState;

/// The usage of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessSample {
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Open files and sockets.
    pub open_files: u64,
    /// CPU time since the sample before, in percent of one core.
    pub cpu_percent: f64,
    /// Time since the sample before in which its threads waited for a processor, in percent of that time.
    pub cpu_wait_percent: f64,
}

/// One sample. Rates, latenesses and errors are those since the sample before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SoakSample {
    /// Seconds since the start.
    pub at_s: f64,
    /// The usage of each process, in the order of the names; `None` while it restarts.
    pub processes: [Option<ProcessSample>; PROCESSES.len()],
    /// `used_memory` of Redis, in bytes.
    pub redis_used_bytes: u64,
    /// Client connections of Redis.
    pub redis_clients: u64,
    /// Client connections of all APIs, at their last scrapes.
    pub http_connections: u64,
    /// Median lateness of jobs with a delay, in ms.
    pub lateness_p50_ms: f64,
    /// 99th percentile, in ms.
    pub lateness_p99_ms: f64,
    /// Jobs published per second.
    pub published_per_s: f64,
    /// Jobs acknowledged or cancelled per second.
    pub ended_per_s: f64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Requests that failed.
    pub errors: u64,
    /// Jobs that have not ended.
    pub pending: u64,
    /// CPU time of a calculation that is always the same, in µs. A rise is the machine's.
    pub calculation_us: f64,
}

/// Takes samples.
#[derive(Debug)]
pub(super) struct Sampler {
    redis: RedisControl,
    begin: Instant,
    last: Counted,
}

/// Counters at the last sample.
#[derive(Debug)]
struct Counted {
    at: Instant,
    usage: BTreeMap<u32, ProcessUsage>,
    published: u64,
    ended: u64,
    answered: u64,
    errors: u64,
}

impl Sampler {
    pub(super) fn new(redis: RedisControl, state: &SoakState) -> Self {
        let begin = Instant::now();
        let mut last = Counted::new(begin, state);
        // Earlier events are in no sample.
        state.lateness().take_recent();
        last.usage.clear();
        Self { redis, begin, last }
    }

    /// Takes a sample.
    pub(super) async fn take(
        &mut self,
        deployment: &SoakDeployment,
        state: &SoakState,
        scrapes: &Mutex<ScrapeCounts>,
    ) -> SoakSample {
        let calculation = calculation_time().await;
        let info = self.redis.info().await;
        let field = |name: &str| info.get(name).and_then(|value| value.parse().ok());
        let at = Instant::now();
        let mut counted = Counted::new(at, state);
        let seconds = at.duration_since(self.last.at).as_secs_f64().max(1e-6);
        let rate = |now: u64, before: u64| (now - before) as f64 / seconds;
        let processes = deployment.pids().map(|pid| {
            let used = process_usage(pid)?;
            counted.usage.insert(pid, used);
            Some(self.last.process(pid, &used, seconds))
        });
        let connections: f64 = {
            let scrapes = scrapes.lock().unwrap_or_else(PoisonError::into_inner);
            scrapes.connections.iter().sum()
        };
        let lateness = state.lateness().take_recent();
        let sample = SoakSample {
            at_s: at.duration_since(self.begin).as_secs_f64(),
            processes,
            redis_used_bytes: field("used_memory").unwrap_or_default(),
            redis_clients: field("connected_clients").unwrap_or_default(),
            http_connections: connections as u64,
            lateness_p50_ms: lateness.p50 as f64 / 1000.0,
            lateness_p99_ms: lateness.p99 as f64 / 1000.0,
            published_per_s: rate(counted.published, self.last.published),
            ended_per_s: rate(counted.ended, self.last.ended),
            requests_per_s: rate(counted.answered, self.last.answered),
            errors: counted.errors - self.last.errors,
            pending: state.jobs().pending() as u64,
            calculation_us: calculation.as_secs_f64() * 1e6,
        };
        self.last = counted;
        sample
    }
}

impl Counted {
    fn new(at: Instant, state: &SoakState) -> Self {
        let jobs = state.jobs().counts();
        Self {
            at,
            usage: BTreeMap::new(),
            published: jobs.published,
            ended: jobs.ended,
            answered: state.tally.answered_count(),
            errors: state.tally.error_count(),
        }
    }

    fn process(&self, pid: u32, used: &ProcessUsage, seconds: f64) -> ProcessSample {
        let before = self.usage.get(&pid).unwrap_or(used);
        let percent = |now: Duration, before: Duration| {
            now.saturating_sub(before).as_secs_f64() / seconds * 100.0
        };
        ProcessSample {
            resident_bytes: used.resident_bytes,
            open_files: used.open_files,
            cpu_percent: percent(used.cpu_time, before.cpu_time),
            cpu_wait_percent: percent(used.cpu_wait, before.cpu_wait),
        }
    }
}
