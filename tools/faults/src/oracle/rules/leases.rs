//! A job has one holder at a time, until its lease ends. An attempt is delivered once.

use super::context::RuleContext;
use crate::history::Span;
use crate::oracle::job::{JobEvent, JobHistory, VersionDelivery, is_refused};
use crate::oracle::verdict::{Defect, Verdict};

/// Times in answers are truncated to ms, and leases are counted from the next one.
const SLACK: u64 = 2000;

pub(super) fn judge(job: &JobHistory, context: RuleContext<'_>, verdict: &mut Verdict) {
    attempts_grow(job, context, verdict);
    if job.has_reliable_times {
        one_holder(job, context, verdict);
        held_until_the_end(job, context, verdict);
    }
    superseded_attempts_are_refused(job, context, verdict);
}

fn attempts_grow(job: &JobHistory, context: RuleContext<'_>, verdict: &mut Verdict) {
    let with_attempts = job.deliveries.iter().filter(|it| it.attempt.is_some());
    let with_attempts: Vec<&VersionDelivery> = with_attempts.collect();
    for pair in with_attempts.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let grows = match job.has_reliable_times {
            true => first.attempt < second.attempt,
            // They are sorted by attempt.
            false => first.attempt != second.attempt,
        };
        if !grows && !context.excuses.may_lose(first.lease_begin_span()) {
            let (before, after) = (first.attempt.unwrap_or(0), second.attempt.unwrap_or(0));
            let text = format!(
                "{}: attempt {after} was delivered after attempt {before}",
                job.name()
            );
            verdict.add_finding(Defect::Doubled, second.span.to, text);
        }
    }
}

fn one_holder(job: &JobHistory, context: RuleContext<'_>, verdict: &mut Verdict) {
    for pair in job.deliveries.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        let held = job.held_until(first, second.begin.from);
        let overlap = held.saturating_sub(second.begin.from);
        let may_end = |event: &JobEvent| {
            let may_end = match first.number == second.number {
                true => event.may_give_back(first.attempt),
                false => event.may_end_attempt(first.attempt),
            };
            may_end && event.span.from <= second.begin.to
        };
        let both = Span {
            from: first.begin.from,
            to: second.begin.to,
        };
        // Redis may lose the begin of the lease, or the requests of its worker meanwhile.
        let is_settled = job.settles(first.attempt).next().is_some();
        let may_be_lost = context.excuses.may_lose(first.lease_begin_span())
            || (is_settled && context.excuses.may_lose(both));
        if overlap > 0 && !may_be_lost && !job.events.iter().any(may_end) {
            let text = format!(
                "{} was delivered again {overlap} µs before its lease ended",
                job.name()
            );
            verdict.add_finding(Defect::Doubled, second.span.to, text);
        }
    }
}

/// A worker whose job was delivered again can no longer settle it.
fn superseded_attempts_are_refused(
    job: &JobHistory,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for first in &job.deliveries {
        let later = job
            .deliveries
            .iter()
            .filter(|it| it.attempt > first.attempt);
        let Some(next) = later.min_by_key(|it| it.begin.to) else {
            continue;
        };
        for (event, action, result) in job.settles(first.attempt) {
            let is_too_late = event.span.from > next.begin.to;
            if is_too_late
                && result.is_some()
                && !is_refused(result)
                && !context.excuses.may_lose(next.lease_begin_span())
                && !context.excuses.may_lose(event.span)
            {
                let attempt = first.attempt.unwrap_or_default();
                let text = format!(
                    "{}: {action:?} of attempt {attempt} succeeded ({result:?}) after a later one had begun",
                    job.name()
                );
                verdict.add_finding(Defect::Doubled, event.span.to, text);
            }
        }
    }
}

/// While a lease lasts its worker can settle the job, unless an earlier settle or a cancel has ended the attempt.
fn held_until_the_end(job: &JobHistory, context: RuleContext<'_>, verdict: &mut Verdict) {
    for delivery in &job.deliveries {
        for (event, action, result) in job.settles(delivery.attempt) {
            let held = job.held_until(delivery, event.span.from);
            let around = Span {
                from: delivery.begin.from,
                to: event.span.to,
            };
            let is_other_end = |other: &JobEvent| {
                !std::ptr::eq(other, event)
                    && other.may_end_attempt(delivery.attempt)
                    && other.span.from <= event.span.to
            };
            if is_refused(result)
                && event.span.to + SLACK < held
                && !job.events.iter().any(is_other_end)
                && context.excuses.is_without_fault(event.span)
                && !context.excuses.may_lose(around)
            {
                let text = format!(
                    "{}: {} was answered with {result:?} while the lease had {} ms left",
                    job.name(),
                    action.call().name(),
                    (held - event.span.to) / 1000
                );
                verdict.add_finding(Defect::LeaseBroken, event.span.to, text);
            }
        }
    }
}
