//! A key has one unfinished job. A job that exists is found by its id and its key.

use super::context::RuleContext;
use crate::history::{History, JobAddress, Operation, RequestOutcome, Span};
use crate::oracle::job::{JobEvent, JobHistory};
use crate::oracle::observed::Observed;
use crate::oracle::verdict::{Defect, Verdict};
use crate::oracle::version::Storing;

pub(super) fn judge(
    history: &History,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for (queue, key) in observed.keys.keys() {
        let jobs: Vec<&JobHistory> = observed.jobs_of_key(*queue, *key).collect();
        one_unfinished_job(&jobs, context, verdict);
    }
    found(history, observed, context, verdict);
}

fn one_unfinished_job(jobs: &[&JobHistory], context: RuleContext<'_>, verdict: &mut Verdict) {
    for (place, first) in jobs.iter().enumerate() {
        for second in &jobs[place + 1..] {
            let (Some(one), Some(other)) = (first.unfinished(), second.unfinished()) else {
                continue;
            };
            let whole = Span {
                from: one.from.min(other.from),
                to: one.to.max(other.to),
            };
            let both = one.from.max(other.from)..one.to.min(other.to);
            if !both.is_empty()
                && !context.excuses.may_lose(whole)
                && context.excuses.has_one_pool(whole)
            {
                let text = format!(
                    "{} and {} were both unfinished for {} µs",
                    first.name(),
                    second.id,
                    both.end - both.start
                );
                verdict.add_finding(Defect::KeyShared, both.end, text);
            }
        }
    }
}

/// A job that certainly exists is found.
fn found(
    history: &History,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for operation in &history.operations {
        let (RequestOutcome::NotFound, Some((queue, address))) =
            (&operation.outcome, operation.request.job())
        else {
            continue;
        };
        let jobs: Vec<&JobHistory> = match address {
            JobAddress::Id(id) => observed.jobs.get(id).into_iter().collect(),
            JobAddress::Key(key) => observed.jobs_of_key(queue, *key).collect(),
        };
        for job in jobs {
            let is_unfinished = job.unfinished().is_some_and(|known| {
                known.from < operation.span.from
                    && operation.span.to < known.to
                    && !context.excuses.may_lose(known)
            });
            if is_unfinished || has_not_ended(job, operation, observed, context) {
                let verb = operation.request.verb();
                let text = format!("{} was not found by {verb}", job.name());
                verdict.add_finding(Defect::Lost, operation.span.to, text);
            }
        }
    }
}

/// Whether a job of the lmstfy wire certainly existed during a request: it was stored before, and nothing that can have
/// ended it was sent by then.
fn has_not_ended(
    job: &JobHistory,
    request: &Operation,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
) -> bool {
    let version = observed.version_of(job);
    let Some(version) = version.filter(|it| !it.is_native()) else {
        return false;
    };
    let may_end =
        |event: &JobEvent| event.span.from <= request.span.to && event.may_end_attempt(None);
    let expires = version.created() + version.spec.ttl;
    let lives = version.spec.ttl == 0 || (expires > request.span.to && job.has_reliable_times);
    let excuses = context.excuses;
    version.storing() == Storing::Certain
        && version.stored().to < request.span.from
        && lives
        && !context.queues.is_native(job.queue)
        && !job.events.iter().any(may_end)
        && !context.queues.may_have_purged(version, job, excuses)
        && !excuses.may_lose_jobs(version.stored())
        && !excuses.may_lose(request.span)
}
