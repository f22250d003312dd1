//! The rules for the history of each job.

mod clock;
mod context;
mod ends;
mod late;
mod requests;
mod times;
mod tries;

use super::job_history::JobHistory;
use super::verdict::Verdict;
pub(super) use context::RuleContext;
pub(super) use ends::may_have_ended;
pub(super) use requests::{peeked, peeked_dead, refused_without_reason};

/// Applies every rule to one job. Returns how often it was respawned, as far as its deliveries show.
pub(super) fn apply(
    job_history: &JobHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) -> usize {
    if job_history.has_reliable_times {
        times::never_early(job_history, verdict);
        times::never_expired(job_history, context, verdict);
        tries::check_one_delivery_at_a_time(job_history, context, verdict);
    } else {
        clock::never_late(job_history, context, verdict);
    }
    ends::never_after_its_end(job_history, context, verdict);
    ends::never_lost(job_history, context, verdict);
    let mut respawned = 0;
    for (delivery, step) in tries::explanations(job_history, context) {
        match step {
            Ok(step) => {
                if job_history.has_reliable_times {
                    late::never_late(job_history, delivery, &step, context, verdict);
                }
                respawned += usize::from(step.is_respawn());
            }
            Err(wrong) => wrong.add_finding(job_history, delivery, verdict),
        }
    }
    respawned
}
