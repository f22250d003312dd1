//! The rules.

mod attempts;
mod context;
mod counts;
mod ends;
mod failures;
mod held;
mod keys;
mod leases;
mod order;
mod priorities;
mod rates;
mod repeats;
mod requests;
mod results;
mod retention;
mod running;
mod times;
mod tokens;
mod turns;

use super::observed::Observed;
use super::verdict::Verdict;
use crate::history::History;
pub(super) use context::RuleContext;
use held::HeldQueueHistory;

/// Applies every rule.
pub(super) fn judge(
    history: &History,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for job in observed.jobs.values() {
        leases::judge(job, context, verdict);
        failures::judge(job, observed, context, verdict);
        counts::judge(job, observed, context, verdict);
        ends::never_found_after_its_end(job, context, verdict);
        let explained = match observed.version_of(job) {
            Some(version) => attempts::explain_all(version, job, context, verdict),
            None => Vec::new(),
        };
        if job.has_reliable_times {
            times::judge(job, &explained, observed, context, verdict);
            retention::judge(job, observed, context, verdict);
        } else if let (Some(version), false) = (observed.version_of(job), explained.is_empty()) {
            times::never_late_despite_the_clock(version, job, context, verdict);
        }
    }
    for version in observed.versions.values() {
        ends::judge(version, observed, context, verdict);
        repeats::judge(version, context, verdict);
    }
    ends::judge_dead_letters(history, observed, context, verdict);
    keys::judge(history, observed, context, verdict);
    order::judge(history, observed, context, verdict);
    for queue in &history.held {
        let held = HeldQueueHistory::new(*queue, observed, context);
        running::judge(&held, context, verdict);
        rates::judge(&held, context, verdict);
        turns::judge(&held, context, verdict);
        priorities::judge(&held, context, verdict);
    }
    results::judge(history, observed, context, verdict);
    requests::judge(history, verdict);
    tokens::judge(history, context.excuses, verdict);
}
