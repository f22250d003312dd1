//! Deliveries, on either wire.

use super::super::excuses::Excuses;
use super::super::job::{EventKind, JobEvent, VersionDelivery};
use super::super::observed::Observed;
use super::super::verdict::{Defect, Verdict};
use super::super::version::{Storing, VersionHistory};
use crate::history::{
    Delivery, History, JobAddress, Operation, RequestOutcome, Span, truncate_to_ms,
};

const MS: u64 = 1000;

/// Adds all deliveries and peeks to their jobs. Adds findings for jobs that match no version.
pub(super) fn collect(
    history: &History,
    excuses: &Excuses<'_>,
    observed: &mut Observed<'_>,
    verdict: &mut Verdict,
) {
    for operation in &history.operations {
        let (jobs, is_peek) = match &operation.outcome {
            RequestOutcome::Delivered(jobs) => (jobs.as_slice(), false),
            RequestOutcome::Peeked(job) => (std::slice::from_ref(&**job), true),
            _ => continue,
        };
        for got in jobs {
            let has_reliable_times = has_reliable_times(operation, got, excuses);
            let text = format!("{}: ", got.id);
            let version = got.number.and_then(|it| observed.versions.get_mut(&it));
            let Some(version) = version else {
                let what = "it was not published, or not with this payload and these attributes";
                verdict.add_finding(Defect::Foreign, operation.span.to, text + what);
                continue;
            };
            for (defect, what) in mismatches(operation, got, version, has_reliable_times, excuses) {
                verdict.add_finding(defect, operation.span.to, format!("{text}{what}"));
            }
            version.id.get_or_insert_with(|| got.id.clone());
            if !version.is_native() {
                version.created = version.created.or(got.created);
            }
            let (number, is_native) = (version.spec.number, version.is_native());
            let job = observed.job_mut(&got.id, got.queue, number);
            job.counts_failures |= is_native;
            match is_peek {
                true => job.events.push(JobEvent {
                    span: operation.span,
                    by: operation.span.to,
                    kind: EventKind::Peeked,
                }),
                false => job
                    .deliveries
                    .push(delivery(operation, got, number, has_reliable_times)),
            }
        }
    }
}

fn delivery(
    operation: &Operation,
    got: &Delivery,
    number: u64,
    has_reliable_times: bool,
) -> VersionDelivery {
    VersionDelivery {
        number,
        attempt: got.attempt,
        begin: match has_reliable_times {
            true => Span {
                from: got.reserved,
                to: got.reserved + MS,
            },
            false => operation.span,
        },
        has_reliable_times,
        lease_until: got.lease_until,
        run_at: got.run_at,
        failures: got.failures,
        tries_left: got.tries_left,
        span: operation.span,
    }
}

/// Whether the times in an answer are by the clock of this machine. The lmstfy wire shows the begin of a lease as the
/// time since the creation, which is 0 while a job that was created with a clock ahead is still new.
fn has_reliable_times(operation: &Operation, got: &Delivery, excuses: &Excuses<'_>) -> bool {
    let until_then = Span {
        from: 0,
        to: operation.span.to,
    };
    let was_created_ahead = got.created.is_some_and(|at| at > operation.span.to)
        && !excuses.has_reliable_clock(until_then);
    excuses.has_reliable_clock(operation.span) && !was_created_ahead
}

/// Returns what of a job in an answer does not match its version or its request.
fn mismatches(
    operation: &Operation,
    got: &Delivery,
    version: &VersionHistory<'_>,
    has_reliable_times: bool,
    excuses: &Excuses<'_>,
) -> Vec<(Defect, String)> {
    let (name, span) = (version.name(), operation.span);
    let life = Span {
        from: version.stored().from,
        to: span.to,
    };
    // Idempotency keys are kept in one deployment, for a time by the clock of Redis.
    let may_repeat = version.is_native()
        && (excuses.may_lose(life)
            || !excuses.has_reliable_clock(life)
            || !excuses.has_one_pool(life));
    let mut all = Vec::new();
    if let Some(known) = version.id.as_ref().filter(|known| **known != got.id)
        && !may_repeat
    {
        let defect = match version.spec.idempotency_key {
            Some(_) => Defect::Repeated,
            None => Defect::Foreign,
        };
        all.push((defect, format!("{name} is in {known}, too")));
    }
    let mut foreign = |is_wrong: bool, what: &str| {
        if is_wrong {
            all.push((Defect::Foreign, format!("{name} {what}")));
        }
    };
    let is_stored = version.storing() != Storing::Never || may_repeat;
    foreign(!is_stored, "was delivered, and no request stored it");
    let is_requested = operation.request.queues().contains(&got.queue);
    let is_of_queue = got.queue == version.queue && is_requested;
    foreign(!is_of_queue, "was delivered from another queue");
    let is_meant = match operation.request.job() {
        Some((_, JobAddress::Id(id))) => *id == got.id,
        _ => true,
    };
    foreign(!is_meant, "was shown as another job");
    // The lmstfy wire shows no keys.
    let has_key = got.attempt.is_none() || got.key == version.spec.key;
    foreign(!has_key, "was delivered with another key");
    let is_within = got.reserved >= truncate_to_ms(span.from) && got.reserved <= span.to;
    let is_clear =
        has_reliable_times && (got.attempt.is_some() || excuses.has_reliable_clock(life));
    foreign(!is_within && is_clear, "was leased outside of the request");
    let is_created = was_created_in_publish(got, version) || !excuses.has_reliable_clock(life);
    foreign(!is_created, "was created outside of its publish");
    all
}

/// Whether the creation time that the lmstfy wire shows is one at which the publish on that wire can have stored it.
fn was_created_in_publish(got: &Delivery, version: &VersionHistory<'_>) -> bool {
    let stored = version.stored();
    let span = truncate_to_ms(stored.from)..=stored.to;
    version.is_native() || got.created.is_none_or(|at| span.contains(&at))
}
