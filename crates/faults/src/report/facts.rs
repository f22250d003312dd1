//! The main facts of a run, small enough to be kept of very many.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Report;
use crate::fault::Class;
use crate::history::{Moment, Span};
use crate::oracle::Defect;
use crate::plan::Deployment;

const FILE: &str = "facts.json";

/// What is kept of a run beside its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Where all chance came from.
    pub seed: u64,
    /// What kept the jobs.
    pub deployment: Deployment,
    /// Whether a publish was acknowledged only when all replicas had its jobs.
    #[serde(default)]
    pub is_replicated: bool,
    /// When clients began.
    pub began: Moment,
    /// How long it took, in µs.
    pub length: u64,
    /// What the faults of each class did.
    pub faults: BTreeMap<Class, Struck>,
    /// Requests of clients.
    pub requests: usize,
    /// Jobs whose publish was acknowledged.
    pub jobs: usize,
    /// Deliveries.
    pub deliveries: usize,
    /// How often it was audited, to the end.
    pub audits: usize,
    /// Jobs lost where Redis was set up to lose what it acknowledged.
    pub lost_with_redis: usize,
    /// The latest delivery of a job that was not held up by anything that excuses it, in µs.
    pub latest: Option<u64>,
    /// How late a job might have been where nothing excused it, in µs.
    pub bound: u64,
    /// Whether the run says anything about lateness.
    #[serde(default)]
    pub proves_lateness: bool,
    /// What was found, and how often.
    pub findings: BTreeMap<Defect, usize>,
}

/// What the faults of a class did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Struck {
    /// How many episodes there were.
    pub times: usize,
    /// The latest delivery of a job that was due in one of them, or while it excused that jobs are late, in µs.
    pub latest: Option<u64>,
    /// The longest time from the end of one to the first publish that was answered well after it, in µs.
    pub recovery: Option<u64>,
}

impl Struck {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            times: self.times + other.times,
            latest: self.latest.max(other.latest),
            recovery: self.recovery.max(other.recovery),
        }
    }
}

impl Facts {
    /// Those of a run.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let (plan, history) = (&report.plan, &report.history);
        let counts = &report.verdict.counts;
        Self {
            seed: plan.seed,
            deployment: plan.deployment,
            is_replicated: plan.is_replicated,
            began: report.history.began,
            length: history.ended.saturating_sub(report.history.began),
            faults: struck(report),
            requests: history.operations.len(),
            jobs: counts.published,
            deliveries: counts.deliveries,
            audits: report.audits.done,
            lost_with_redis: counts.lost_with_redis,
            latest: latest_unexcused(report),
            bound: history.bound,
            proves_lateness: history.proves_lateness(),
            findings: found(report),
        }
    }

    /// Whether the machine was such that the run proves nothing.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.findings.contains_key(&Defect::Void)
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(FILE), serde_json::to_vec_pretty(self)?)
    }
}

/// The facts of all runs that were kept in `folder`, in the order in which they began.
///
/// # Errors
/// The folder cannot be read, or a file in it is none of facts.
pub(super) fn kept_in(folder: &Path) -> io::Result<Vec<Facts>> {
    let mut all = Vec::new();
    for run in fs::read_dir(folder)? {
        let path = run?.path().join(FILE);
        if !path.is_file() {
            continue;
        }
        let facts: Facts = serde_json::from_slice(&fs::read(&path)?)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        all.push(facts);
    }
    all.sort_by_key(|facts| facts.began);
    Ok(all)
}

fn struck(report: &Report) -> BTreeMap<Class, Struck> {
    let mut all: BTreeMap<Class, Struck> = BTreeMap::new();
    for episode in &report.history.episodes {
        let one = Struck {
            times: 1,
            latest: report.worst_in(episode).map(|it| it.late),
            recovery: report.recovery_after(episode),
        };
        let before = all.entry(episode.class).or_default();
        *before = before.and(one);
    }
    all
}

fn found(report: &Report) -> BTreeMap<Defect, usize> {
    let mut counts = BTreeMap::new();
    for finding in &report.verdict.findings {
        *counts.entry(finding.defect).or_default() += 1;
    }
    counts
}

fn latest_unexcused(report: &Report) -> Option<u64> {
    let episodes = report.history.episodes.iter();
    let excused: Vec<Span> = episodes
        .filter(|it| it.excuses_until > it.span.from)
        .map(|it| it.excused())
        .chain(report.history.busy.iter().copied())
        .collect();
    let unexcused = report.verdict.lateness.iter().filter(|it| {
        let waited = it.waited;
        !excused.iter().any(|span| span.meets(&waited))
    });
    unexcused.map(|it| it.late).max()
}
