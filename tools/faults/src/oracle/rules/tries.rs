//! Each delivery costs one try and holds the job for a lease; nothing else costs tries.

use super::super::job_history::{JobHistory, ObservedDelivery};
use super::super::verdict::{Defect, Verdict};
use super::context::RuleContext;
use crate::history::{Span, UnixMicros};

/// Explanations of a delivery, given the previous ones. At least one is set.
#[derive(Debug)]
pub(super) struct Explanation {
    /// The job was ready, or its lease had expired.
    pub(super) ready: Option<Availability>,
    /// The job was dead, and was respawned at this time at the latest.
    pub(super) respawned: Option<UnixMicros>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Availability {
    /// Since when it was available.
    pub(super) available: UnixMicros,
    /// Number of unobserved reservations in between.
    pub(super) takes: u64,
}

impl Explanation {
    pub(super) const fn is_respawn(&self) -> bool {
        self.ready.is_none()
    }
}

/// Why a delivery has no explanation.
#[derive(Debug, Clone, Copy)]
pub(super) enum UnexplainedDelivery {
    /// The job had fewer tries left.
    TooManyTries { had: u64 },
    /// The job had more tries left, and no consumer can have used the missing ones.
    TooFewTries { had: u64 },
}

impl UnexplainedDelivery {
    pub(super) fn add_finding(
        self,
        job_history: &JobHistory<'_>,
        delivery: &ObservedDelivery<'_>,
        verdict: &mut Verdict,
    ) {
        let (name, now) = (job_history.name(), delivery.got.tries_left);
        let (defect, text) = match self {
            Self::TooManyTries { had } => (
                Defect::Doubled,
                format!("{name} came with {now} tries left, had {had} before"),
            ),
            Self::TooFewTries { had } => (
                Defect::DiedEarly,
                format!(
                    "{name} came with {now} tries left, had {had} before, and no consumer can have used the others"
                ),
            ),
        };
        verdict.add_finding(defect, delivery.span.to, text);
    }
}

/// Returns each delivery with its explanation.
pub(super) fn explanations<'s, 'a>(
    job_history: &'s JobHistory<'a>,
    context: RuleContext<'s>,
) -> impl Iterator<
    Item = (
        &'s ObservedDelivery<'a>,
        Result<Explanation, UnexplainedDelivery>,
    ),
> {
    let available = job_history.created() + job_history.terms.delay;
    let mut before = Before {
        had: vec![job_history.terms.tries],
        available,
        dead_from: available,
    };
    job_history.deliveries.iter().map(move |delivery| {
        let step = explain(job_history, delivery, &before, context);
        before.available = delivery.lease_end();
        if !context.excuses.may_lose(delivery.lease_begin_span()) {
            before.had.clear();
            before.dead_from = before.available;
        }
        before.had.push(delivery.got.tries_left);
        (delivery, step)
    })
}

/// What is known of a job before a delivery. If Redis may have lost earlier deliveries, several states are possible.
struct Before {
    /// The numbers of tries that it may have had.
    had: Vec<u64>,
    /// Since when it was available, if no delivery was lost.
    available: UnixMicros,
    /// Since when it may have been dead: deliveries after that may have been lost, with the respawns that led to them.
    dead_from: UnixMicros,
}

fn explain(
    job_history: &JobHistory<'_>,
    delivery: &ObservedDelivery<'_>,
    before: &Before,
    context: RuleContext<'_>,
) -> Result<Explanation, UnexplainedDelivery> {
    let now = delivery.got.tries_left;
    let Before { had, available, .. } = before;
    let available = *available;
    let since = |from| match job_history.has_reliable_times {
        true => Span {
            from,
            to: delivery.lease_begin.max(from),
        },
        false => Span {
            from: job_history.published.span.from,
            to: delivery.span.to,
        },
    };
    let unseen_in = |span| {
        let excuses = context.excuses;
        excuses.unobserved_reservations(job_history.queue, span)
    };
    let unseen = unseen_in(since(available));
    let takes = had.iter().filter_map(|had| had.checked_sub(now + 1)).min();
    let ready = takes
        .filter(|takes| *takes <= unseen)
        .map(|takes| Availability { available, takes });
    let fewest = had.iter().min().copied().unwrap_or_default();
    let while_dead = since(before.dead_from);
    let respawned = match now == 0 && fewest <= unseen_in(while_dead) {
        true => context
            .queues
            .respawned_in(job_history.queue, while_dead, context.excuses),
        false => None,
    };
    match (ready, respawned, takes) {
        (None, None, Some(takes)) => Err(UnexplainedDelivery::TooFewTries {
            had: now + 1 + takes,
        }),
        (None, None, None) => Err(UnexplainedDelivery::TooManyTries {
            had: had.iter().max().copied().unwrap_or_default(),
        }),
        _ => Ok(Explanation { ready, respawned }),
    }
}

pub(super) fn check_one_delivery_at_a_time(
    job_history: &JobHistory<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for pair in job_history.deliveries.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        let overlap = first.lease_end().saturating_sub(second.got.reserved());
        // A lease that Redis has lost does not count.
        if overlap > 0 && !context.excuses.may_lose(first.lease_begin_span()) {
            let text = format!(
                "{} came {overlap} µs before its lease expired",
                job_history.name()
            );
            verdict.add_finding(Defect::Doubled, second.span.to, text);
        }
    }
}
