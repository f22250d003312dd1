//! What a fail does: the job is retried at the time in the answer, or dead after as many failures as it may have.

use super::NativeHistory;
use super::job::{NativeJob, VersionDelivery};
use super::version::VersionHistory;
use crate::history::{SettleResult, SettleVerb, Span};
use crate::oracle::rules::RuleContext;
use crate::oracle::verdict::{Defect, Verdict};

const MS: u64 = 1000;
/// Failures after which jobs are dead that do not say so, as in the default policy.
pub(super) const ATTEMPTS_MAX: u64 = 10;
/// The first delay of the default policy, in µs. Each further one is twice as long.
const FIRST_DELAY: u64 = 1_000_000;
/// The jitter of the default policy, in thousandths.
const JITTER: u64 = 100;

pub(super) fn judge(
    job: &NativeJob,
    observed: &NativeHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for delivery in &job.deliveries {
        let Some(version) = observed.versions.get(&delivery.number) else {
            continue;
        };
        let Some(failures) = delivery.failures.filter(|_| version.is_native) else {
            continue;
        };
        let failures = u64::from(failures) + 1;
        for (event, verb, result) in job.settles(delivery.attempt) {
            let mut add = |defect, what: String| {
                let text = format!("{}: {verb:?} of failure {failures} {what}", job.name());
                verdict.add_finding(defect, event.span.to, text);
            };
            let most = attempts_max(version);
            match (verb, result) {
                (SettleVerb::FailDead, Some(SettleResult::Retry(_))) => {
                    add(Defect::Doubled, "was answered with a retry".to_owned());
                }
                (_, Some(SettleResult::Retry(_))) if failures >= most => {
                    add(
                        Defect::Doubled,
                        format!("of {most} was answered with a retry"),
                    );
                }
                (SettleVerb::Fail | SettleVerb::FailRetryIn(_), Some(SettleResult::Dead))
                    if failures < most =>
                {
                    add(
                        Defect::DiedEarly,
                        format!("of {most} was answered with dead"),
                    );
                }
                _ => {}
            }
            let Some(SettleResult::Retry(at)) = result else {
                continue;
            };
            let expected = retry_span(version, verb, failures, event.span);
            if context.excuses.has_reliable_clock(event.span) && at < expected.from {
                let early = expected.from - at;
                add(Defect::Early, format!("is retried {early} µs too early"));
            }
            if context.excuses.has_reliable_clock(event.span) && at > expected.to {
                let late = at - expected.to;
                add(Defect::Late, format!("is retried {late} µs too late"));
            }
        }
    }
}

pub(super) fn attempts_max(version: &VersionHistory<'_>) -> u64 {
    match version.spec.terms.tries {
        0 => ATTEMPTS_MAX,
        own => own,
    }
}

/// Returns when a job can be due that fails for this time in this span.
fn retry_span(version: &VersionHistory<'_>, verb: SettleVerb, failures: u64, within: Span) -> Span {
    let (delay, jitter) = match (verb, &version.spec.retry) {
        (SettleVerb::FailRetryIn(delay), _) => (delay, 0),
        (_, Some(retry)) => {
            let place = usize::try_from(failures - 1).unwrap_or(usize::MAX);
            let own = retry.delays.get(place).or(retry.delays.last());
            (own.copied().unwrap_or_default(), retry.jitter)
        }
        (_, None) => (FIRST_DELAY << (failures - 1).min(11), JITTER),
    };
    let longest = delay * jitter / 1000;
    Span {
        from: (within.from / MS * MS + delay).saturating_sub(longest),
        to: within.to + delay + longest + 2 * MS,
    }
}

/// Returns the settles that count a failure of a version, with what is known of them.
pub(super) fn failures_of<'j>(
    job: &'j NativeJob,
    delivery: &'j VersionDelivery,
) -> impl Iterator<Item = (Span, bool)> + 'j {
    let settles = job.settles(delivery.attempt);
    settles.filter_map(|(event, verb, result)| {
        let is_fail = matches!(verb, SettleVerb::Fail | SettleVerb::FailRetryIn(_));
        match result {
            Some(SettleResult::Retry(_)) => Some((event.carried_out(), true)),
            None if is_fail => Some((event.carried_out(), false)),
            _ => None,
        }
    })
}
