//! Summary of a run, small enough to store it for very many runs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::run_report::RunReport;
use crate::deployment::Deployment;
use crate::fault::Class;
use crate::history::{Span, UnixMicros};
use crate::oracle::Defect;

const FILE: &str = "facts.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    pub seed: u64,
    pub deployment: Deployment,
    /// Whether a publish waited for all replicas.
    pub is_replicated: bool,
    /// When the clients started.
    pub began: UnixMicros,
    /// Length of the run, in µs.
    pub length: u64,
    pub faults: BTreeMap<Class, FaultEffects>,
    /// Number of requests of clients.
    pub requests: usize,
    /// Number of jobs whose publish was acknowledged.
    pub jobs: usize,
    /// Number of deliveries.
    pub deliveries: usize,
    /// Number of completed audits.
    pub audits: usize,
    /// Number of acknowledged jobs that were lost while the configuration of Redis allowed it.
    pub lost_with_redis: usize,
    /// Largest lateness of a delivery without any excuse, in µs.
    pub latest: Option<u64>,
    /// Largest allowed lateness without an excuse, in µs.
    pub bound: u64,
    /// Whether the run proves anything about lateness.
    pub proves_lateness: bool,
    /// Number of findings, by kind.
    pub findings: BTreeMap<Defect, usize>,
}

/// Effects of the faults of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultEffects {
    /// Number of episodes.
    pub times: usize,
    /// Largest lateness of a job that was due in an episode, or while it excused late jobs, in µs.
    pub latest: Option<u64>,
    /// Longest time from the end of an episode to the next successful publish, in µs.
    pub recovery: Option<u64>,
}

impl FaultEffects {
    /// Combines two values.
    #[must_use]
    pub fn combine(self, other: Self) -> Self {
        Self {
            times: self.times + other.times,
            latest: self.latest.max(other.latest),
            recovery: self.recovery.max(other.recovery),
        }
    }
}

impl RunSummary {
    /// Summarizes a run.
    #[must_use]
    pub fn from_report(report: &RunReport) -> Self {
        let (plan, history) = (&report.plan, &report.history);
        let counts = &report.verdict.counts;
        Self {
            seed: plan.seed,
            deployment: plan.deployment,
            is_replicated: plan.is_replicated,
            began: report.history.began,
            length: history.ended.saturating_sub(report.history.began),
            faults: fault_effects(report),
            requests: history.operations.len(),
            jobs: counts.published,
            deliveries: counts.deliveries,
            audits: report.audits.done,
            lost_with_redis: counts.lost_with_redis,
            latest: latest_unexcused(report),
            bound: history.bound,
            proves_lateness: history.proves_lateness(),
            findings: finding_counts(report),
        }
    }

    /// Whether the run does not count, because of the machine.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.findings.contains_key(&Defect::Void)
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(FILE), serde_json::to_vec_pretty(self)?)
    }
}

/// Reads the facts of all runs in `folder`, ordered by start.
///
/// # Errors
/// The folder cannot be read, or a facts file in it is invalid.
pub(super) fn kept_in(folder: &Path) -> io::Result<Vec<RunSummary>> {
    let mut all = Vec::new();
    for run in fs::read_dir(folder)? {
        let path = run?.path().join(FILE);
        if !path.is_file() {
            continue;
        }
        let facts: RunSummary = serde_json::from_slice(&fs::read(&path)?)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        all.push(facts);
    }
    all.sort_by_key(|facts| facts.began);
    Ok(all)
}

fn fault_effects(report: &RunReport) -> BTreeMap<Class, FaultEffects> {
    let mut all: BTreeMap<Class, FaultEffects> = BTreeMap::new();
    for episode in &report.history.episodes {
        let one = FaultEffects {
            times: 1,
            latest: report.latest_delivery_in(episode).map(|it| it.late),
            recovery: report.recovery_after(episode),
        };
        let before = all.entry(episode.class).or_default();
        *before = before.combine(one);
    }
    all
}

fn finding_counts(report: &RunReport) -> BTreeMap<Defect, usize> {
    let mut counts = BTreeMap::new();
    for finding in &report.verdict.findings {
        *counts.entry(finding.defect).or_default() += 1;
    }
    counts
}

fn latest_unexcused(report: &RunReport) -> Option<u64> {
    let episodes = report.history.episodes.iter();
    let excused: Vec<Span> = episodes
        .filter(|it| it.excuses_until > it.span.from)
        .map(|it| it.excused())
        .chain(report.history.busy.iter().copied())
        .collect();
    let unexcused = report.verdict.lateness.iter().filter(|it| {
        let waited = it.waited;
        !excused.iter().any(|span| span.overlaps(&waited))
    });
    unexcused.map(|it| it.late).max()
}
