//! The tries of a job of the lmstfy wire: each delivery costs one, and nothing else does. A respawn gives a dead job
//! one.

use super::context::RuleContext;
use crate::history::{Span, UnixMicros};
use crate::oracle::job::{JobHistory, VersionDelivery};
use crate::oracle::verdict::{Defect, Verdict};
use crate::oracle::version::VersionHistory;

/// Explanations of a delivery, given the previous ones. At least one is set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Explanation {
    /// The job was ready, or its lease had expired; with the number of unobserved reservations in between.
    pub(super) takes: Option<u64>,
    /// The job was dead, and was respawned at this time at the latest.
    pub(super) respawned: Option<UnixMicros>,
}

/// Returns the explanation of each delivery of a job, `None` if it has none; nothing for jobs that native clients may
/// have used. Adds a finding for each delivery without one.
pub(super) fn explain_all(
    version: &VersionHistory<'_>,
    job: &JobHistory,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) -> Vec<Option<Explanation>> {
    if version.is_native() || context.queues.is_native(job.queue) {
        return Vec::new();
    }
    let available = version.created() + version.spec.delay;
    let mut before = Before {
        had: vec![version.spec.tries],
        available,
        dead_from: available,
    };
    let explained = job.deliveries.iter().map(|delivery| {
        let now = delivery.tries_left.unwrap_or_default();
        let step = explain(version, job, delivery, &before, context);
        before.available = delivery.lease_until;
        if !context.excuses.may_lose(delivery.lease_begin_span()) {
            before.had.clear();
            before.dead_from = before.available;
        }
        before.had.push(now);
        match step {
            Ok(step) => Some(step),
            Err((defect, had)) => {
                let text = format!(
                    "{} came with {now} tries left, had {had} before",
                    job.name()
                );
                verdict.add_finding(defect, delivery.span.to, text);
                None
            }
        }
    });
    explained.collect()
}

/// The knowledge of a job before a delivery. If Redis may have lost earlier deliveries, several states are possible.
struct Before {
    /// The numbers of tries that it may have had.
    had: Vec<u64>,
    /// Since when it was available, if no delivery was lost.
    available: UnixMicros,
    /// Since when it may have been dead: deliveries after that may have been lost, with the respawns that led to them.
    dead_from: UnixMicros,
}

/// The error has the number of tries that the job had: more than are left although no consumer can have used the
/// others, or fewer.
fn explain(
    version: &VersionHistory<'_>,
    job: &JobHistory,
    delivery: &VersionDelivery,
    before: &Before,
    context: RuleContext<'_>,
) -> Result<Explanation, (Defect, u64)> {
    let now = delivery.tries_left.unwrap_or_default();
    let had = &before.had;
    let since = |from| match job.has_reliable_times {
        true => Span {
            from,
            to: delivery.begin.from.max(from),
        },
        false => Span {
            from: version.stored().from,
            to: delivery.span.to,
        },
    };
    let unseen_in = |span| context.excuses.unobserved_reservations(job.queue, span);
    let unseen = unseen_in(since(before.available));
    let missing = had.iter().filter_map(|had| had.checked_sub(now + 1)).min();
    let takes = missing.filter(|takes| *takes <= unseen);
    let fewest = had.iter().min().copied().unwrap_or_default();
    let while_dead = since(before.dead_from);
    let respawned = match now == 0 && fewest <= unseen_in(while_dead) {
        true => context
            .queues
            .respawned_in(job.queue, while_dead, context.excuses),
        false => None,
    };
    match (takes, respawned, missing) {
        (None, None, Some(missing)) => Err((Defect::DiedEarly, now + 1 + missing)),
        (None, None, None) => Err((
            Defect::Doubled,
            had.iter().max().copied().unwrap_or_default(),
        )),
        _ => Ok(Explanation { takes, respawned }),
    }
}
