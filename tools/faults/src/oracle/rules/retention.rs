//! A key stays taken while its finished job is retained, and no longer.

use tidegate_core::v1::consume::Outcome;
use tidegate_core::v1::publish::PublishResult;
use tidegate_core::{IfExists, JobState};

use super::context::RuleContext;
use crate::history::{SettleAction, Span, UnixMicros};
use crate::oracle::job::{EventKind, JobHistory};
use crate::oracle::observed::Observed;
use crate::oracle::verdict::{Defect, Verdict};
use crate::oracle::version::{PublishEffect, Storing, VersionHistory, VersionPublish};

/// Times count from the end of a millisecond.
const SLACK: u64 = 3000;
/// How long a job is retained at least if a client waits for its end.
const AWAITED: u64 = 10_000_000;

/// A job with a key that is done and retained.
struct RetainedJob<'a> {
    job: &'a JobHistory,
    key: u32,
    /// The span of its ack.
    done: Span,
    retain: u64,
    /// Longer than `retain` if a client may have waited for the end of the job.
    retain_max: u64,
}

/// Checks a job whose times are reliable.
pub(super) fn judge(
    job: &JobHistory,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    let Some(retained) = retained(job, observed) else {
        return;
    };
    for version in observed.versions_of_key(job.queue, retained.key) {
        for publish in &version.publishes {
            if !is_after(publish, &retained, context) {
                continue;
            }
            if let Some(early) = retained.freed_early(version, publish, observed) {
                let text = format!("{}: its key was free {early} µs too early", job.name());
                verdict.add_finding(Defect::KeyShared, publish.operation.span.to, text);
            }
            if let Some(over) = retained.kept_too_long(publish) {
                let text = format!("{}: its key was taken {over} µs too long", job.name());
                verdict.add_finding(Defect::KeyShared, publish.operation.span.to, text);
            }
        }
    }
}

fn retained<'a>(job: &'a JobHistory, observed: &Observed<'_>) -> Option<RetainedJob<'a>> {
    let key = job.key?;
    job.events.iter().find_map(|event| match event.kind {
        EventKind::Settled {
            attempt: Some(_),
            number,
            action: SettleAction::Ack,
            result: Some(Outcome::Done { .. }),
        } => {
            let mut versions = observed.versions_of_key(job.queue, key);
            let may_be_awaited = versions.any(|it| it.spec.wait > 0);
            let retain = observed.versions.get(&number)?.spec.retain;
            Some(RetainedJob {
                job,
                key,
                done: event.span,
                retain,
                retain_max: retain.max(if may_be_awaited { AWAITED } else { 0 }),
            })
        }
        _ => None,
    })
}

/// Whether a publish began after the job was done, and nothing between them may have freed the key.
fn is_after(
    publish: &VersionPublish<'_>,
    retained: &RetainedJob<'_>,
    context: RuleContext<'_>,
) -> bool {
    let span = publish.operation.span;
    let between = Span {
        from: retained.done.from,
        to: span.to,
    };
    span.from > retained.done.to
        && !context.excuses.may_lose(between)
        && context.excuses.has_reliable_clock(between)
        && context.excuses.has_one_pool(between)
}

impl RetainedJob<'_> {
    /// Returns by how much a publish that created another job found the key free too early.
    fn freed_early(
        &self,
        version: &VersionHistory<'_>,
        publish: &VersionPublish<'_>,
        observed: &Observed<'_>,
    ) -> Option<u64> {
        let PublishEffect::Job { id, outcome, .. } = &publish.effect else {
            return None;
        };
        let at = publish.operation.span.to;
        let is_new = publish.has_stored()
            && *id != self.job.id
            && *outcome == PublishResult::Created
            && version.spec.if_exists != IfExists::Replace;
        let early = (self.done.from + self.retain).checked_sub(at)?;
        (is_new && early > SLACK && !self.may_be_replaced_by(at, observed)).then_some(early)
    }

    /// Whether another publish may have replaced the job before this time.
    fn may_be_replaced_by(&self, at: UnixMicros, observed: &Observed<'_>) -> bool {
        let versions = observed.versions_of_key(self.job.queue, self.key);
        let mut replacing = versions.filter(|it| it.spec.if_exists == IfExists::Replace);
        replacing.any(|it| {
            let stored = it.stored();
            it.storing() != Storing::Never && stored.from <= at && stored.to >= self.done.from
        })
    }

    /// Returns by how much a publish that found the job found it too late.
    fn kept_too_long(&self, publish: &VersionPublish<'_>) -> Option<u64> {
        let PublishEffect::Job {
            id,
            outcome: PublishResult::Exists,
            state: JobState::Done,
            ..
        } = &publish.effect
        else {
            return None;
        };
        let until = self.done.to + self.retain_max;
        let over = publish.operation.span.from.checked_sub(until)?;
        (*id == self.job.id && over > SLACK).then_some(over)
    }
}
