//! A key has one unfinished job. It stays taken while its finished job is retained, and no longer. A job that exists is
//! found by its id and its key.

use tidegate_api_types::publish::PublishResult;
use tidegate_api_types::values::{IfExistsOption, StateName};

use super::NativeHistory;
use super::job::{EventKind, NativeJob};
use super::version::{Published, Storing};
use crate::history::{
    ClientRequest, History, JobAddress, NativeAnswer, NativeCall, RequestOutcome, SettleResult,
    SettleVerb, Span, UnixMicros,
};
use crate::oracle::rules::RuleContext;
use crate::oracle::verdict::{Defect, Verdict};

/// Times count from the end of a millisecond.
const SLACK: u64 = 3000;

pub(super) fn judge(
    history: &History,
    observed: &NativeHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for (queue, key) in observed.keys.keys() {
        let jobs: Vec<&NativeJob> = observed.jobs_of_key(*queue, *key).collect();
        one_unfinished_job(&jobs, context, verdict);
        for job in &jobs {
            retained(job, observed, context, verdict);
        }
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

/// A job that is done and retained: since when at the latest, since when at the earliest, and how long.
struct RetainedJob {
    at: Span,
    retain: u64,
}

fn retained(
    job: &NativeJob,
    observed: &NativeHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    if !job.has_reliable_times {
        return;
    }
    let done = job.events.iter().find_map(|event| match event.kind {
        EventKind::Settled {
            attempt: Some(_),
            number,
            verb: SettleVerb::Ack,
            result: Some(SettleResult::Done),
        } => Some(RetainedJob {
            at: event.span,
            retain: observed.versions.get(&number)?.spec.retain,
        }),
        _ => None,
    });
    let (Some(done), Some(key)) = (done, job.key) else {
        return;
    };
    let numbers = observed.keys.get(&(job.queue, key));
    let versions = || {
        numbers
            .into_iter()
            .flatten()
            .filter_map(|it| observed.versions.get(it))
    };
    let may_be_replaced_by = |at: UnixMicros| {
        let mut others = versions().filter(|it| it.spec.if_exists == IfExistsOption::Replace);
        others.any(|it| {
            let stored = it.stored();
            it.storing() != Storing::Never && stored.from <= at && stored.to >= done.at.from
        })
    };
    for version in versions() {
        for publish in &version.publishes {
            let Published::Job {
                id, outcome, state, ..
            } = &publish.result
            else {
                continue;
            };
            let span = publish.operation.span;
            let around = Span {
                from: done.at.from,
                to: span.to,
            };
            if span.from <= done.at.to
                || context.excuses.may_lose(around)
                || !context.excuses.has_reliable_clock(around)
                || !context.excuses.has_one_pool(around)
            {
                continue;
            }
            let is_new =
                publish.has_stored() && *id != job.id && *outcome == PublishResult::Created;
            if is_new
                && version.spec.if_exists != IfExistsOption::Replace
                && span.to + SLACK < done.at.from + done.retain
                && !may_be_replaced_by(span.to)
            {
                let early = done.at.from + done.retain - span.to;
                let text = format!("{}: its key was free {early} µs too early", job.name());
                verdict.add_finding(Defect::KeyShared, span.to, text);
            }
            let is_kept = *outcome == PublishResult::Exists && *state == StateName::Done;
            if is_kept && *id == job.id && span.from > done.at.to + done.retain + SLACK {
                let over = span.from - done.at.to - done.retain;
                let text = format!("{}: its key was taken {over} µs too long", job.name());
                verdict.add_finding(Defect::KeyShared, span.to, text);
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
        let (queue, address) = match call {
            NativeCall::Cancel { queue, job, .. }
            | NativeCall::Change { queue, job, .. }
            | NativeCall::Promote { queue, job }
            | NativeCall::Show { queue, job } => (queue, job),
            _ => continue,
        };
        let jobs: Vec<&NativeJob> = match address {
            JobAddress::Id(id) => observed.jobs.get(id).into_iter().collect(),
            JobAddress::Key(key) => observed.jobs_of_key(*queue, *key).collect(),
        };
        for job in jobs {
            let is_there = job.unfinished().filter(|there| {
                there.from < operation.span.from
                    && operation.span.to < there.to
                    && !context.excuses.may_lose(*there)
            });
            if is_there.is_some() {
                let text = format!("{} was not found by {}", job.name(), call.verb());
                verdict.add_finding(Defect::Lost, operation.span.to, text);
            }
        }
    }
}
