//! A key has one unfinished job. A job that exists is found by its id and its key.

use super::job::NativeJob;
use super::native_history::NativeHistory;
use crate::history::{ClientRequest, History, JobAddress, NativeAnswer, RequestOutcome, Span};
use crate::oracle::rules::RuleContext;
use crate::oracle::verdict::{Defect, Verdict};

pub(super) fn judge(
    history: &History,
    observed: &NativeHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for (queue, key) in observed.keys.keys() {
        let jobs: Vec<&NativeJob> = observed.jobs_of_key(*queue, *key).collect();
        one_unfinished_job(&jobs, context, verdict);
    }
    found(history, observed, context, verdict);
}

fn one_unfinished_job(jobs: &[&NativeJob], context: RuleContext<'_>, verdict: &mut Verdict) {
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
    observed: &NativeHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for operation in &history.operations {
        let (ClientRequest::Native(call), RequestOutcome::Native(NativeAnswer::NotFound)) =
            (&operation.request, &operation.outcome)
        else {
            continue;
        };
        let Some((queue, address)) = call.job() else {
            continue;
        };
        let jobs: Vec<&NativeJob> = match address {
            JobAddress::Id(id) => observed.jobs.get(id).into_iter().collect(),
            JobAddress::Key(key) => observed.jobs_of_key(queue, *key).collect(),
        };
        for job in jobs {
            let exists = job.unfinished().is_some_and(|known| {
                known.from < operation.span.from
                    && operation.span.to < known.to
                    && !context.excuses.may_lose(known)
            });
            if exists {
                let text = format!("{} was not found by {}", job.name(), call.verb());
                verdict.add_finding(Defect::Lost, operation.span.to, text);
            }
        }
    }
}
