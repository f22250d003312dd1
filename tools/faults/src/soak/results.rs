//! The records of a soak.

use std::time::Duration;

use super::job_stream::SoakCounts;
use super::sample::SoakSample;
use super::scrape::ScrapeCounts;
use super::times::SoakTimes;

/// Numbers of audits, and their findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SoakAudits {
    /// Audits that were done.
    pub done: usize,
    /// Audits that could not be done.
    pub failed: usize,
    pub findings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SoakRestart {
    /// When it began, in seconds since the start.
    pub at_s: f64,
    /// The process.
    pub name: &'static str,
    /// From SIGTERM until it served again.
    pub took: Duration,
}

/// All results.
#[derive(Debug, Clone, PartialEq)]
pub struct SoakReport {
    /// The intervals of the run.
    pub times: SoakTimes,
    /// The measured capacity in jobs per second; `None` if the rate was given.
    pub capacity: Option<f64>,
    /// Jobs published per second.
    pub rate: f64,
    /// Publishes that were left out, since the publishers were more than a second behind.
    pub left_out: u64,
    pub samples: Vec<SoakSample>,
    /// Lateness of each quarter, in ms.
    pub lateness_p99_ms: [f64; 4],
    /// Numbers of jobs.
    pub jobs: SoakCounts,
    /// The first defects of jobs, in words.
    pub defects: Vec<String>,
    /// Failed requests, in words.
    pub errors: Vec<String>,
    pub audits: SoakAudits,
    pub restarts: Vec<SoakRestart>,
    pub scrapes: ScrapeCounts,
}
