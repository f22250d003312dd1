//! Deliveries, on either wire.

use crate::history::{
    ClientRequest, History, JobInAnswer, NativeAnswer, NativeCall, Operation, RequestOutcome,
    ReservedVersion, Span, UnixMicros,
};
use crate::oracle::cut::truncate_to_ms;
use crate::oracle::excuses::Excuses;
use crate::oracle::native::job::{VersionDelivery, id_without_version};
use crate::oracle::native::native_history::NativeHistory;
use crate::oracle::native::version::{Storing, VersionHistory};
use crate::oracle::verdict::{Defect, Verdict};

const MS: u64 = 1000;

/// A job in an answer of either wire.
struct DeliveredItem<'a> {
    operation: &'a Operation,
    id: &'a str,
    queue: u16,
    /// Whether the request named that queue.
    is_requested: bool,
    /// The number of its version, if its content is that of one.
    number: Option<u64>,
    reserved: UnixMicros,
    delivery: VersionDelivery,
}

/// Adds all deliveries to their jobs. Adds findings for those that match no version.
pub(super) fn collect(
    history: &History,
    excuses: &Excuses<'_>,
    observed: &mut NativeHistory<'_>,
    verdict: &mut Verdict,
) {
    for operation in &history.operations {
        match (&operation.request, &operation.outcome) {
            (
                ClientRequest::Native(NativeCall::Reserve { queues, .. }),
                RequestOutcome::Native(NativeAnswer::Reserved(jobs)),
            ) => {
                for got in jobs {
                    let item = native_item(operation, got, queues, excuses);
                    add(&item, excuses, observed, verdict);
                    check_key(operation, got, observed, verdict);
                }
            }
            (ClientRequest::Consume { queues, ttr, .. }, RequestOutcome::Delivered(jobs)) => {
                let jobs = jobs.iter().filter(|got| queues.contains(&got.queue));
                for got in jobs.filter(|got| history.native.contains(&got.queue)) {
                    let item = lmstfy_item(operation, got, *ttr, excuses);
                    add(&item, excuses, observed, verdict);
                }
            }
            _ => {}
        }
    }
}

fn native_item<'a>(
    operation: &'a Operation,
    got: &'a ReservedVersion,
    requested: &[u16],
    excuses: &Excuses<'_>,
) -> DeliveredItem<'a> {
    let has_reliable_times = excuses.has_reliable_clock(operation.span);
    DeliveredItem {
        operation,
        id: &got.id,
        queue: got.queue,
        is_requested: requested.contains(&got.queue),
        number: got.number,
        reserved: got.reserved,
        delivery: VersionDelivery {
            number: got.number.unwrap_or_default(),
            attempt: Some(got.attempt),
            begin: lease_begin(operation, got.reserved, has_reliable_times),
            has_reliable_times,
            lease_until: got.lease_until,
            run_at: Some(got.run_at),
            failures: Some(got.failures),
            tries_left: None,
            span: operation.span,
        },
    }
}

fn lmstfy_item<'a>(
    operation: &'a Operation,
    got: &'a JobInAnswer,
    ttr: u64,
    excuses: &Excuses<'_>,
) -> DeliveredItem<'a> {
    let has_reliable_times =
        excuses.has_reliable_clock(operation.span) && !was_created_ahead(operation, got, excuses);
    DeliveredItem {
        operation,
        id: id_without_version(&got.id),
        queue: got.queue,
        is_requested: true,
        number: got.number,
        reserved: got.reserved(),
        delivery: VersionDelivery {
            number: got.number.unwrap_or_default(),
            attempt: None,
            begin: lease_begin(operation, got.reserved(), has_reliable_times),
            has_reliable_times,
            lease_until: got.reserved() + ttr,
            run_at: None,
            failures: None,
            tries_left: Some(got.tries_left),
            span: operation.span,
        },
    }
}

/// Whether a job was created while the clock of Redis was ahead, and is still new by its creation time. The lmstfy wire
/// shows the begin of a lease as the time since the creation, which is 0 then.
fn was_created_ahead(operation: &Operation, got: &JobInAnswer, excuses: &Excuses<'_>) -> bool {
    let until_then = Span {
        from: 0,
        to: operation.span.to,
    };
    got.created > operation.span.to && !excuses.has_reliable_clock(until_then)
}

/// Returns the span in which a lease can have begun: that of the request, if the time in the answer is not reliable.
fn lease_begin(operation: &Operation, reserved: UnixMicros, has_reliable_times: bool) -> Span {
    match has_reliable_times {
        true => Span {
            from: reserved,
            to: reserved + MS,
        },
        false => operation.span,
    }
}

fn add(
    item: &DeliveredItem<'_>,
    excuses: &Excuses<'_>,
    observed: &mut NativeHistory<'_>,
    verdict: &mut Verdict,
) {
    let mut add_finding = |defect, text: String| {
        let text = format!("{}: {text}", item.id);
        verdict.add_finding(defect, item.operation.span.to, text);
    };
    let version = item.number.and_then(|it| observed.versions.get_mut(&it));
    let Some(version) = version else {
        let text = "it was not published, or not with this payload and these attributes";
        return add_finding(Defect::Foreign, text.to_owned());
    };
    for (defect, text) in mismatches(item, version, excuses) {
        add_finding(defect, text);
    }
    version.id.get_or_insert_with(|| item.id.to_owned());
    let (key, is_native) = (version.spec.key, version.is_native);
    let job = observed.job_mut(item.id, item.queue, key);
    job.counts_failures |= is_native;
    job.deliveries.push(item.delivery.clone());
}

/// Returns what of a delivery does not match its version or its request.
fn mismatches(
    item: &DeliveredItem<'_>,
    version: &VersionHistory<'_>,
    excuses: &Excuses<'_>,
) -> Vec<(Defect, String)> {
    let (name, span) = (version.name(), item.operation.span);
    let life = Span {
        from: version.stored().from,
        to: span.to,
    };
    // Idempotency keys are kept in one deployment, for a time by the clock of Redis.
    let may_lose =
        excuses.may_lose(life) || !excuses.has_reliable_clock(life) || !excuses.has_one_pool(life);
    let mut all = Vec::new();
    if let Some(known) = version.id.as_ref().filter(|known| *known != item.id)
        && !may_lose
    {
        let defect = match version.spec.idempotency_key {
            Some(_) => Defect::Repeated,
            None => Defect::Foreign,
        };
        all.push((defect, format!("{name} is in {known}, too")));
    }
    if version.storing() == Storing::Never && !may_lose {
        let text = format!("{name} was delivered, and no request stored it");
        all.push((Defect::Foreign, text));
    }
    if item.queue != version.queue || !item.is_requested {
        let text = format!("{name} was delivered from another queue");
        all.push((Defect::Foreign, text));
    }
    let is_within = item.reserved >= truncate_to_ms(span.from) && item.reserved <= span.to;
    if !is_within && item.delivery.has_reliable_times {
        let text = format!("the lease of {name} began outside of the request");
        all.push((Defect::Foreign, text));
    }
    all
}

/// Checks that a delivery shows the key of its version.
fn check_key(
    operation: &Operation,
    got: &ReservedVersion,
    observed: &NativeHistory<'_>,
    verdict: &mut Verdict,
) {
    let version = got.number.and_then(|number| observed.versions.get(&number));
    if let Some(version) = version.filter(|it| it.spec.key != got.key) {
        let name = version.name();
        let text = format!("{}: {name} was delivered with another key", got.id);
        verdict.add_finding(Defect::Foreign, operation.span.to, text);
    }
}
