//! A publisher that waits gets the result of the run that has ended its job, and no answer about that end is untrue.

use super::context::RuleContext;
use super::counts::LOSSES_MAX;
use crate::history::{
    CancelEffect, ClientRequest, History, JobEndAnswer, RequestOutcome, RunResult, SettleAction,
    Span, VersionSpec,
};
use crate::oracle::job::{EventKind, JobEvent, JobHistory, is_refused};
use crate::oracle::observed::Observed;
use crate::oracle::verdict::{Defect, Verdict};
use tidegate_core::v1::consume::Outcome;

/// The answer to a publisher that waits.
struct AnsweredWait<'a> {
    queue: u16,
    version: &'a VersionSpec,
    /// The id of the job in the answer.
    id: &'a str,
    span: Span,
}

pub(super) fn judge(
    history: &History,
    observed: &Observed<'_>,
    context: RuleContext<'_>,
    verdict: &mut Verdict,
) {
    for operation in &history.operations {
        let RequestOutcome::Ended { id, end } = &operation.outcome else {
            continue;
        };
        let version = match &operation.request {
            ClientRequest::Publish { versions, .. } => versions.first(),
            ClientRequest::Result { version, .. } => {
                observed.versions.get(version).map(|version| version.spec)
            }
            _ => None,
        };
        let (Some(version), [queue]) = (version, operation.request.queues()) else {
            continue;
        };
        let wait = AnsweredWait {
            queue: *queue,
            version,
            id,
            span: operation.span,
        };
        if let Some(why) = wait.untrue(end, observed, context) {
            let (verb, number) = (operation.request.verb(), version.number);
            let text = format!("a {verb} of version {number} got {end:?} of job {id}: {why}");
            verdict.add_finding(Defect::WrongResult, operation.span.to, text);
        }
    }
}

impl AnsweredWait<'_> {
    /// Returns why the answer cannot be true.
    fn untrue(
        &self,
        end: &JobEndAnswer,
        observed: &Observed<'_>,
        context: RuleContext<'_>,
    ) -> Option<&'static str> {
        match end {
            JobEndAnswer::Foreign => return Some("no worker returns that"),
            JobEndAnswer::Result(run) => return self.wrong_run(run, observed, context),
            _ => {}
        }
        let job = observed.jobs.get(self.id)?;
        let life = self.life(job);
        if context.excuses.may_lose(life)
            || !context.excuses.has_reliable_clock(life)
            || !context.excuses.has_one_pool(life)
        {
            return None;
        }
        match end {
            // A server without memory drops results.
            JobEndAnswer::NoResult if context.excuses.is_without_fault(life) => {
                let is_explained = self.has_event(job, is_lmstfy_ack);
                (!is_explained).then_some("each of its runs has a result")
            }
            JobEndAnswer::Dead => {
                let unseen = context.excuses.unobserved_reservations(self.queue, life);
                let most = job.deliveries.len() as u64 + unseen;
                let is_explained = self.has_event(job, is_failure) || most >= LOSSES_MAX.into();
                (!is_explained).then_some("it has not failed, and did not lose its workers")
            }
            // A request that is repeated, or has a key, may find a job that is done and retained no longer.
            JobEndAnswer::Gone
                if self.version.key.is_none() && self.version.idempotency_key.is_none() =>
            {
                let is_explained = self.has_event(job, |it| is_cancel(it) || is_lmstfy_ack(it));
                (!is_explained).then_some("it was not cancelled")
            }
            _ => None,
        }
    }

    /// Returns why the job in the answer cannot have this result.
    fn wrong_run(
        &self,
        run: &RunResult,
        observed: &Observed<'_>,
        context: RuleContext<'_>,
    ) -> Option<&'static str> {
        if run.id != self.id {
            return Some("it is that of another job");
        }
        if !self.may_be_of(run.number, observed) {
            return Some("it is that of a version without its key");
        }
        let job = observed.jobs.get(self.id)?;
        let is_of_run = |event: &JobEvent| {
            matches!(
                &event.kind,
                EventKind::Settled { attempt: Some(attempt), number, action: SettleAction::Ack, .. }
                    if *attempt == run.attempt && *number == run.number
            )
        };
        if !self.has_event(job, is_of_run) {
            return Some("its worker had not returned it");
        }
        // Redis may have lost what an earlier answer says.
        let is_last = |event: &JobEvent| is_of_run(event) && may_be_done(event);
        let may_be_lost = context.excuses.may_lose(self.life(job));
        let is_wrong = !may_be_lost && !self.has_event(job, is_last);
        is_wrong.then_some("that run was not the last one")
    }

    /// Whether a version is the one that was published, or another one of its key.
    fn may_be_of(&self, number: u64, observed: &Observed<'_>) -> bool {
        let has_key = || {
            let of = observed.versions.get(&number);
            let key = of.filter(|of| of.queue == self.queue).map(|of| of.spec.key);
            self.version.key.is_some() && key == Some(self.version.key)
        };
        number == self.version.number || has_key()
    }

    fn has_event(&self, job: &JobHistory, is: impl Fn(&JobEvent) -> bool) -> bool {
        let mut events = job.events.iter();
        events.any(|event| event.span.from <= self.span.to && is(event))
    }

    /// From the first that was observed of the job until the answer.
    fn life(&self, job: &JobHistory) -> Span {
        let events = job.events.iter().map(|event| event.span.from);
        let deliveries = job.deliveries.iter().map(|it| it.begin.from);
        let first = events.chain(deliveries).min();
        Span {
            from: first.map_or(self.span.from, |first| first.min(self.span.from)),
            to: self.span.to,
        }
    }
}

/// Whether an ack may have ended a job.
const fn may_be_done(event: &JobEvent) -> bool {
    matches!(
        event.kind,
        EventKind::Settled {
            result: None | Some(Outcome::Done { .. }),
            ..
        }
    )
}

/// Whether it may have ended a job without a result. It deletes a job that is not leased.
const fn is_lmstfy_ack(event: &JobEvent) -> bool {
    matches!(event.kind, EventKind::Settled { attempt: None, .. })
}

fn is_failure(event: &JobEvent) -> bool {
    matches!(
        event.kind,
        EventKind::Settled {
            action: SettleAction::Fail | SettleAction::FailRetryIn(_) | SettleAction::FailDead,
            result,
            ..
        } if !is_refused(result)
    )
}

fn is_cancel(event: &JobEvent) -> bool {
    match &event.kind {
        EventKind::Cancelled(effect) => *effect != Some(CancelEffect::AlreadyDone),
        _ => false,
    }
}
