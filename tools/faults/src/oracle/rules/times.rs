//! A job is delivered neither before it is due nor after its window.

use super::attempts::Explanation;
use super::context::RuleContext;
use crate::history::{SettleAction, Span, UnixMicros, micros, truncate_to_ms};
use crate::oracle::job::{EventKind, JobEvent, JobHistory, VersionDelivery};
use crate::oracle::observed::Observed;
use crate::oracle::verdict::{Defect, Lateness, Verdict};
use crate::oracle::version::VersionHistory;
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

/// `explained` has the explanation of each delivery of a job that only the lmstfy wire uses.
pub(super) fn judge(
    job: &JobHistory,
    explained: &[Option<Explanation>],
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for (place, delivery) in job.deliveries.iter().enumerate() {
        let Some(version) = observed.versions.get(&delivery.number) else {
            continue;
        };
        let before = place.checked_sub(1).map(|place| &job.deliveries[place]);
        let explanation = explained.get(place).copied();
        let judged = JudgedDelivery {
            job,
            version,
            before,
            delivery,
        };
        let available = judged.available(explanation.is_some(), context);
        judged.never_early(&available, context, verdict);
        judged.never_expired(context, verdict);
        match explanation {
            Some(Some(step)) => {
                let ready = step.takes.zip(available.to);
                let ready = ready.map(|(takes, since)| (since, takes));
                let ways = [ready, step.respawned.map(|at| (at, 0))];
                let is_exact = step.respawned.is_none();
                judged.never_late(&ways, is_exact, context, verdict);
            }
            // It is a finding already.
            Some(None) => {}
            None => {
                let way = available.to;
                let way = way.map(|since| (since, judged.unseen(since, context)));
                judged.never_late(&[way], available.is_exact, context, verdict);
            }
        }
    }
}

/// A delivery, with the one before.
struct JudgedDelivery<'a> {
    job: &'a JobHistory,
    version: &'a VersionHistory<'a>,
    before: Option<&'a VersionDelivery>,
    delivery: &'a VersionDelivery,
}

impl JudgedDelivery<'_> {
    /// `is_explained` = its explanation shows respawns.
    fn available(&self, is_explained: bool, context: RuleContext<'_>) -> AvailableSpan {
        let (job, delivery) = (self.job, self.delivery);
        let again = self.before.filter(|it| it.number == delivery.number);
        let mut span = match again {
            Some(before) => after_attempt(job, before, delivery),
            None => first_of_version(job, self.version, self.before),
        };
        let since = again.map_or(self.version.stored().from, |it| it.begin.from);
        let between = Span {
            from: since,
            to: delivery.begin.to,
        };
        let events = job.events.iter();
        for event in events.filter(|it| it.carried_out().overlaps(&between)) {
            apply_edit(event, &mut span);
        }
        let respawned = match is_explained {
            true => None,
            false => context
                .queues
                .respawned_in(job.queue, between, context.excuses),
        };
        if let Some(at) = respawned {
            span.from = since;
            span.to = span.to.map(|to| to.max(at));
            span.is_exact = false;
        }
        span
    }

    fn never_early(
        &self,
        available: &AvailableSpan,
        context: RuleContext<'_>,
        verdict: &mut Verdict,
    ) {
        let delivery = self.delivery;
        let shown = delivery.run_at.unwrap_or_default();
        let begun = delivery.begin.from;
        let early = shown
            .max(truncate_to_ms(available.from))
            .saturating_sub(begun);
        // A change of the due time may be lost as well.
        let changed_from = available.changed_from.unwrap_or(UnixMicros::MAX);
        let life = Span {
            from: available.from.min(begun).min(changed_from),
            to: delivery.begin.to,
        };
        // A version of the lmstfy wire has one due time, which no loss changes.
        let may_be_lost = self.version.is_native() && context.excuses.may_lose(life);
        if early > 0 && !may_be_lost {
            let text = format!("{} was delivered {early} µs before it was due", self.name());
            verdict.add_finding(Defect::Early, delivery.span.to, text);
        }
    }

    /// A dead job does not expire.
    fn never_expired(&self, context: RuleContext<'_>, verdict: &mut Verdict) {
        let (version, begun) = (self.version, self.delivery.begin.from);
        // An expiry counts from the end of the current ms.
        let over = begun.saturating_sub(version.created() + version.spec.ttl + MS);
        let life = Span {
            from: version.stored().from,
            to: begun,
        };
        let respawned = context
            .queues
            .respawned_in(self.job.queue, life, context.excuses);
        if version.spec.ttl > 0 && over > 0 && respawned.is_none() {
            let text = format!(
                "{} was delivered {over} µs after it had expired",
                self.name()
            );
            verdict.add_finding(Defect::AfterItsEnd, self.delivery.span.to, text);
        }
    }

    /// Returns how many unobserved reservations there can have been since it was available.
    fn unseen(&self, since: UnixMicros, context: RuleContext<'_>) -> u64 {
        let delivery = self.delivery;
        let last = self.before.map_or(Some(0), |it| it.attempt);
        let unseen = delivery.attempt.zip(last);
        let unseen = unseen.map(|(now, last)| u64::from(now.saturating_sub(last + 1)));
        unseen.unwrap_or_else(|| {
            let between = Span {
                from: since.min(delivery.begin.from),
                to: delivery.begin.to,
            };
            context
                .excuses
                .unobserved_reservations(self.job.queue, between)
        })
    }

    /// Each of the `ways` by which it can have become available has its time and the number of unobserved reservations
    /// since then. The excuse with the latest deadline counts.
    fn never_late(
        &self,
        ways: &[Option<(UnixMicros, u64)>],
        is_exact: bool,
        context: RuleContext<'_>,
        verdict: &mut Verdict,
    ) {
        let queue = self.job.queue;
        let ways = ways.iter().flatten();
        let latest = ways
            .map(|(since, takes)| {
                let deadline = context.excuses.deadline(queue, *since, *takes);
                (deadline, *since, *takes)
            })
            .max();
        let Some((deadline, since, takes)) = latest else {
            return;
        };
        let received = self.delivery.span.to;
        let late = received.saturating_sub(since);
        if received > deadline {
            let text = format!(
                "{} was delivered {} ms after it was due, {} ms after its window",
                self.name(),
                late / MS,
                (received - deadline) / MS
            );
            verdict.add_finding(Defect::Late, received, text);
        }
        if is_exact && takes == 0 && !context.excuses.is_held(queue) {
            let waited = Span {
                from: since,
                to: since + late,
            };
            let late = context.excuses.requested_time_within(queue, waited);
            verdict.lateness.push(Lateness { waited, late });
        }
    }

    fn name(&self) -> String {
        format!("version {} of {}", self.delivery.number, self.job.name())
    }
}

/// A job of the lmstfy wire that was published before the clock of Redis was moved must not be late after the clock is
/// correct again.
pub(super) fn never_late_despite_the_clock(
    version: &VersionHistory<'_>,
    job: &JobHistory,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let (Some(first), published) = (job.deliveries.first(), version.stored()) else {
        return;
    };
    let is_first = first.tries_left.unwrap_or_default() + 1 == version.spec.tries;
    // A job with one try may have been delivered unobserved, died, and been respawned.
    let life = Span {
        from: published.from,
        to: first.span.to,
    };
    let respawned = context
        .queues
        .respawned_in(job.queue, life, context.excuses);
    let may_be_respawned = version.spec.tries == 1 && respawned.is_some();
    if !is_first || may_be_respawned || !context.excuses.has_reliable_clock(published) {
        return;
    }
    let available = published.to + version.spec.delay;
    let deadline = context.excuses.deadline(job.queue, available, 0);
    let over = first.span.to.saturating_sub(deadline);
    if over > 0 {
        let text = format!(
            "{} came {} ms after its window, which the clock of Redis does not change",
            job.name(),
            over / MS
        );
        verdict.add_finding(Defect::Late, first.span.to, text);
    }
}

/// Returns when a version is available for its first delivery. If another version ran before, that must have ended.
fn first_of_version(
    job: &JobHistory,
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
    job: &JobHistory,
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
    // Redis may have lost the delivery before, and then the same attempt began twice: its ends are not before it.
    if before.attempt.is_some() && before.attempt == delivery.attempt {
        return span;
    }
    let running = Span {
        from: before.begin.from,
        // The begin is known to the millisecond only: a consumer may ack this delivery before its last possible begin.
        to: delivery.begin.to.min(delivery.span.to),
    };
    let ends = job.events.iter().filter(|event| {
        event.may_give_back(before.attempt) && event.carried_out().overlaps(&running)
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
