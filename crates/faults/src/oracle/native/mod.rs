//! Judges the jobs of queues that native clients use, whichever wire published or delivered them.
//!
//! A job is what has an id. With a key it has versions one after the other, each with a number in its payload. Jobs of
//! other queues are judged by `rules`.

mod collect;
mod counts;
mod ends;
mod job;
mod keys;
mod leases;
mod repeats;
mod settled;
mod times;
mod version;

use std::collections::BTreeMap;

use super::rules::RuleContext;
use super::verdict::Verdict;
use crate::history::History;
use collect::Collector;
use job::NativeJob;
use version::VersionHistory;

/// Everything that was observed on the queues of native clients.
#[derive(Debug, Default)]
struct NativeHistory<'a> {
    /// By number.
    versions: BTreeMap<u64, VersionHistory<'a>>,
    /// By id.
    jobs: BTreeMap<String, NativeJob>,
    /// The numbers of the versions of each key, by queue and number of the key.
    keys: BTreeMap<(u16, u32), Vec<u64>>,
}

impl NativeHistory<'_> {
    /// Returns the other versions of the key of a version.
    fn rivals(&self, version: &VersionHistory<'_>) -> impl Iterator<Item = &VersionHistory<'_>> {
        let number = version.spec.terms.number;
        let key = version.spec.key.map(|key| (version.queue, key));
        let numbers = key
            .and_then(|key| self.keys.get(&key))
            .into_iter()
            .flatten();
        let others = numbers.filter(move |other| **other != number);
        others.filter_map(|other| self.versions.get(other))
    }

    /// Returns the jobs that had a key.
    fn jobs_of_key(&self, queue: u16, key: u32) -> impl Iterator<Item = &NativeJob> {
        let mut ids: Vec<&String> = Vec::new();
        for number in self.keys.get(&(queue, key)).into_iter().flatten() {
            ids.extend(self.versions.get(number).and_then(|it| it.id.as_ref()));
        }
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().filter_map(|id| self.jobs.get(id))
    }
}

/// Checks every job of the queues that native clients use.
pub(super) fn judge(history: &History, context: RuleContext<'_>, verdict: &mut Verdict) {
    let observed = Collector::collect(history, context.excuses, verdict);
    for job in observed.jobs.values() {
        leases::judge(job, context, verdict);
        settled::judge(job, &observed, context, verdict);
        if job.has_reliable_times {
            times::judge(job, &observed, context, verdict);
        }
        counts::judge(job, &observed, context, verdict);
        ends::never_named_after_its_end(job, context, verdict);
    }
    for version in observed.versions.values() {
        ends::judge(version, &observed, context, verdict);
        repeats::judge(version, context, verdict);
    }
    keys::judge(history, &observed, context, verdict);
    repeats::rejected(history, verdict);
    count(history, &observed, verdict);
}

fn count(history: &History, observed: &NativeHistory<'_>, verdict: &mut Verdict) {
    let counts = &mut verdict.counts;
    let deliveries: usize = observed.jobs.values().map(|job| job.deliveries.len()).sum();
    counts.native.jobs = observed.jobs.len();
    counts.native.versions = observed.versions.len();
    counts.native.deliveries = deliveries;
    for operation in &history.operations {
        counts.native.count_request(operation);
    }
    counts.published += observed.jobs.len();
    counts.deliveries += deliveries;
    let delivered = observed
        .jobs
        .values()
        .filter(|job| !job.deliveries.is_empty());
    counts.delivered += delivered.count();
}
