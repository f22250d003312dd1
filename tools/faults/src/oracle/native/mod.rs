//! Judges the jobs of queues that native clients use, whichever wire published or delivered them.
//!
//! A job is identified by its id. With a key it has versions one after the other, each with a number in its payload.
//! Jobs of other queues are judged by `rules`.

mod collect;
mod counts;
mod ends;
mod failures;
mod job;
mod keys;
mod leases;
mod native_history;
mod repeats;
mod results;
mod retention;
mod times;
mod version;

use super::rules::RuleContext;
use super::verdict::Verdict;
use crate::history::History;
use native_history::NativeHistory;

/// Checks every job of the queues that native clients use.
pub(super) fn judge(history: &History, context: RuleContext<'_>, verdict: &mut Verdict) {
    let observed = collect::collect(history, context.excuses, verdict);
    for job in observed.jobs.values() {
        leases::judge(job, context, verdict);
        failures::judge(job, &observed, context, verdict);
        if job.has_reliable_times {
            times::judge(job, &observed, context, verdict);
            retention::judge(job, &observed, context, verdict);
        }
        counts::judge(job, &observed, context, verdict);
        ends::never_found_after_its_end(job, context, verdict);
    }
    for version in observed.versions.values() {
        ends::judge(version, &observed, context, verdict);
        repeats::judge(version, context, verdict);
    }
    keys::judge(history, &observed, context, verdict);
    repeats::rejected(history, verdict);
    results::judge(history, &observed, context, verdict);
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
