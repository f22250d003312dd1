//! A job is delivered neither before it is due nor after its window.

use super::job::{EventKind, JobEvent, NativeJob, VersionDelivery};
use super::native_history::NativeHistory;
use super::version::VersionHistory;
use crate::history::{SettleAction, Span, UnixMicros, micros};
use crate::oracle::cut::truncate_to_ms;
use crate::oracle::rules::RuleContext;
use crate::oracle::verdict::{Defect, Lateness, Verdict};
use tidegate_core::v1::consume::Outcome;

const MS: u64 = 1000;

/// When a job can have become available before a delivery.
#[derive(Debug)]
struct AvailableSpan {
    /// At the earliest.
    from: UnixMicros,
    /// At the latest; `None` = any time.
    to: Option<UnixMicros>,
    /// Whether no other request can have influenced it.
    is_exact: bool,
    /// When the first request was sent that has influenced it since the version was stored or delivered.
    changed_from: Option<UnixMicros>,
}

pub(super) fn judge(
    job: &NativeJob,
    observed: &NativeHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for (place, delivery) in job.deliveries.iter().enumerate() {
        let Some(version) = observed.versions.get(&delivery.number) else {
            continue;
        };
        let before = place.checked_sub(1).map(|place| &job.deliveries[place]);
        let available = available(job, version, before, delivery, context);
        never_early(job, delivery, &available, context, verdict);
        never_late(job, before, delivery, &available, context, verdict);
    }
}

fn available(
    job: &NativeJob,
    version: &VersionHistory<'_>,
    before: Option<&VersionDelivery>,
    delivery: &VersionDelivery,
    context: RuleContext<'_>,
) -> AvailableSpan {
    let again = before.filter(|it| it.number == delivery.number);
    let mut span = match again {
        Some(before) => after_attempt(job, before, delivery),
        None => first_of_version(job, version, before),
    };
    let since = again.map_or(version.stored().from, |it| it.begin.from);
    let between = Span {
        from: since,
        to: delivery.begin.to,
    };
    let events = job.events.iter();
    for event in events.filter(|it| it.carried_out().overlaps(&between)) {
        apply_edit(event, &mut span);
    }
    let respawned = context
        .queues
        .respawned_in(job.queue, between, context.excuses);
    if let Some(at) = respawned {
        span.from = since;
        span.to = span.to.map(|to| to.max(at));
        span.is_exact = false;
    }
    span
}

/// Returns when a version is available for its first delivery. If another version ran before, that must have ended.
fn first_of_version(
    job: &NativeJob,
    version: &VersionHistory<'_>,
    before: Option<&VersionDelivery>,
) -> AvailableSpan {
    let due = version.due();
    let ended = before.map(|it| job.held_at_most_until(it));
    AvailableSpan {
        from: due.from,
        to: Some(ended.map_or(due.to, |ended| ended.max(due.to))),
        is_exact: before.is_none(),
        changed_from: None,
    }
}

/// Returns when a version is available again: its lease has expired, or its worker has ended the attempt.
fn after_attempt(
    job: &NativeJob,
    before: &VersionDelivery,
    delivery: &VersionDelivery,
) -> AvailableSpan {
    let mut span = AvailableSpan {
        // `leases` reports a delivery while the lease lasts.
        from: 0,
        to: Some(job.held_at_most_until(before)),
        is_exact: true,
        changed_from: None,
    };
    let running = Span {
        from: before.begin.from,
        // The begin is known to the millisecond only: a consumer may ack this delivery before its last possible begin.
        to: delivery.begin.to.min(delivery.span.to),
    };
    let ends = job.events.iter().filter(|event| {
        event.may_end_attempt(before.attempt) && event.carried_out().overlaps(&running)
    });
    span.changed_from = ends.clone().map(|event| event.span.from).min();
    let ends: Vec<AttemptEnd> = ends.filter_map(attempt_end).collect();
    if ends.is_empty() {
        return span;
    }
    let expires = (!ends.iter().any(|end| end.is_certain))
        .then(|| job.held_until(before, delivery.begin.from));
    let due = ends.iter().map(|end| end.from).chain(expires);
    span.from = due.min().unwrap_or_default();
    for end in &ends {
        span.to = match end.is_certain {
            true => end.to.map(|to| to.max(end.from)),
            false => span.to.zip(end.to).map(|(one, other)| one.max(other)),
        };
        span.is_exact &= end.is_certain;
    }
    span
}

/// When a job is due after a request that ends an attempt, or may end it.
struct AttemptEnd {
    from: UnixMicros,
    /// `None` = at any time.
    to: Option<UnixMicros>,
    is_certain: bool,
}

fn attempt_end(event: &JobEvent) -> Option<AttemptEnd> {
    let EventKind::Settled { action, result, .. } = &event.kind else {
        return None;
    };
    let after = |delay: u64| {
        let from = truncate_to_ms(event.span.from) + delay;
        (from, Some(event.by.saturating_add(delay + MS)))
    };
    let (from, to) = match (action, result) {
        (_, Some(Outcome::Retry { run_at })) => (micros(*run_at), Some(micros(*run_at))),
        (SettleAction::Release(delay), _) | (SettleAction::FailRetryIn(delay), None) => {
            after(*delay)
        }
        _ => (event.span.from, None),
    };
    Some(AttemptEnd {
        from,
        to,
        is_certain: result.is_some(),
    })
}

/// Takes into account that a request may have changed when the job is due.
fn apply_edit(event: &JobEvent, span: &mut AvailableSpan) {
    let is_edit = matches!(
        event.kind,
        EventKind::Changed { .. } | EventKind::Promoted { .. }
    );
    if is_edit {
        let first = span.changed_from.unwrap_or(event.span.from);
        span.changed_from = Some(first.min(event.span.from));
    }
    match event.kind {
        EventKind::Changed { due, .. } => {
            span.from = span.from.min(due.from);
            span.to = span.to.map(|to| to.max(due.to));
            span.is_exact = false;
        }
        EventKind::Promoted { .. } => {
            span.from = span.from.min(event.span.from);
            span.to = span.to.map(|to| to.max(event.by));
            span.is_exact = false;
        }
        _ => {}
    }
}

fn never_early(
    job: &NativeJob,
    delivery: &VersionDelivery,
    available: &AvailableSpan,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let shown = delivery.run_at.unwrap_or_default();
    let early = shown
        .max(truncate_to_ms(available.from))
        .saturating_sub(delivery.begin.from);
    // A change of the due time may be lost as well.
    let changed_from = available.changed_from.unwrap_or(UnixMicros::MAX);
    let life = Span {
        from: available.from.min(delivery.begin.from).min(changed_from),
        to: delivery.begin.to,
    };
    if early > 0 && !context.excuses.may_lose(life) {
        let text = format!(
            "version {} of {} was delivered {early} µs before it was due",
            delivery.number,
            job.name()
        );
        verdict.add_finding(Defect::Early, delivery.span.to, text);
    }
}

fn never_late(
    job: &NativeJob,
    before: Option<&VersionDelivery>,
    delivery: &VersionDelivery,
    available: &AvailableSpan,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let Some(since) = available.to else {
        return;
    };
    let last = before.map_or(Some(0), |it| it.attempt);
    let unseen = delivery.attempt.zip(last);
    let unseen = unseen.map(|(now, last)| u64::from(now.saturating_sub(last + 1)));
    let unseen = unseen.unwrap_or_else(|| {
        let between = Span {
            from: since.min(delivery.begin.from),
            to: delivery.begin.to,
        };
        context.excuses.unobserved_reservations(job.queue, between)
    });
    let deadline = context.excuses.deadline(job.queue, since, unseen);
    let received = delivery.span.to;
    let late = received.saturating_sub(since);
    if received > deadline {
        let text = format!(
            "version {} of {} was delivered {} ms after it was due, {} ms after its window",
            delivery.number,
            job.name(),
            late / MS,
            (received - deadline) / MS
        );
        verdict.add_finding(Defect::Late, received, text);
    }
    if available.is_exact && unseen == 0 {
        let waited = Span {
            from: since,
            to: since + late,
        };
        let late = context.excuses.requested_time_within(job.queue, waited);
        verdict.lateness.push(Lateness { waited, late });
    }
}
