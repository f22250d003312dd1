//! The effect of a fail: the job is retried at the time in the answer, or dead after as many failures as it may have.

use super::context::RuleContext;
use crate::history::{SettleAction, Span, UnixMicros, micros, truncate_to_ms};
use crate::oracle::job::{JobEvent, JobHistory};
use crate::oracle::observed::Observed;
use crate::oracle::verdict::{Defect, Verdict};
use crate::oracle::version::VersionHistory;
use tidegate_core::v1::consume::Outcome;

const MS: u64 = 1000;
/// The first delay of the default policy, in µs. Each further one is twice as long.
const FIRST_DELAY: u64 = 1_000_000;
/// The jitter of the default policy, in thousandths.
const JITTER: u64 = 100;

pub(super) fn judge(
    job: &JobHistory,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for delivery in &job.deliveries {
        let Some(version) = observed.versions.get(&delivery.number) else {
            continue;
        };
        let Some(failures) = delivery.failures.filter(|_| version.is_native()) else {
            continue;
        };
        let failures = u64::from(failures) + 1;
        for (event, action, result) in job.settles(delivery.attempt) {
            // Redis may have lost this attempt, and have delivered another one with its number.
            let around = Span {
                from: delivery.begin.from.min(event.span.from),
                to: delivery.begin.to.max(event.span.to),
            };
            if context.excuses.may_lose(around) {
                continue;
            }
            let mut add = |defect, what: String| {
                let text = format!("{}: {action:?} of failure {failures} {what}", job.name());
                verdict.add_finding(defect, event.span.to, text);
            };
            if let Some((defect, what)) = wrong_result(version, action, failures, result) {
                add(defect, what);
            }
            let Some(Outcome::Retry { run_at }) = result else {
                continue;
            };
            if let Some((defect, what)) =
                wrong_time(version, action, failures, event, micros(run_at))
                && context.excuses.has_reliable_clock(event.span)
            {
                add(defect, what);
            }
        }
    }
}

/// Checks that a job is retried exactly until it has as many failures as it may have.
fn wrong_result(
    version: &VersionHistory<'_>,
    action: SettleAction,
    failures: u64,
    result: Option<Outcome>,
) -> Option<(Defect, String)> {
    let most = version.attempts_max();
    match (action, result) {
        (SettleAction::FailDead, Some(Outcome::Retry { .. })) => {
            Some((Defect::Doubled, "was answered with a retry".to_owned()))
        }
        (_, Some(Outcome::Retry { .. })) if failures >= most => {
            let what = format!("of {most} was answered with a retry");
            Some((Defect::Doubled, what))
        }
        (SettleAction::Fail | SettleAction::FailRetryIn(_), Some(Outcome::Dead))
            if failures < most =>
        {
            let what = format!("of {most} was answered with dead");
            Some((Defect::DiedEarly, what))
        }
        _ => None,
    }
}

/// Checks the time of a retry.
fn wrong_time(
    version: &VersionHistory<'_>,
    action: SettleAction,
    failures: u64,
    event: &JobEvent,
    at: UnixMicros,
) -> Option<(Defect, String)> {
    let expected = retry_span(version, action, failures, event.span);
    if at < expected.from {
        let early = expected.from - at;
        return Some((Defect::Early, format!("is retried {early} µs too early")));
    }
    let late = at.saturating_sub(expected.to);
    (late > 0).then(|| (Defect::Late, format!("is retried {late} µs too late")))
}

/// Returns when a job can be due that fails for this time in this span.
fn retry_span(
    version: &VersionHistory<'_>,
    action: SettleAction,
    failures: u64,
    within: Span,
) -> Span {
    let (delay, jitter) = match (action, &version.spec.retry) {
        (SettleAction::FailRetryIn(delay), _) => (delay, 0),
        (_, Some(retry)) => {
            let place = usize::try_from(failures - 1).unwrap_or(usize::MAX);
            let own = retry.delays.get(place).or(retry.delays.last());
            (own.copied().unwrap_or_default(), retry.jitter)
        }
        (_, None) => (FIRST_DELAY << (failures - 1).min(11), JITTER),
    };
    let longest = delay * jitter / 1000;
    Span {
        from: truncate_to_ms(within.from) + delay,
        to: within.to + delay + longest + 2 * MS,
    }
}
