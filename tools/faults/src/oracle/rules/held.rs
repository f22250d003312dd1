//! Deliveries of a queue whose jobs wait, by line: the ready jobs of a priority and group are a line.

use super::context::RuleContext;
use crate::history::{HeldQueue, SettleAction, Span, UnixMicros};
use crate::oracle::job::{EventKind, JobHistory, VersionDelivery};
use crate::oracle::observed::Observed;
use crate::oracle::version::{Storing, VersionHistory};

/// A line of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub(super) priority: u8,
    pub(super) group: Option<u8>,
}

impl Line {
    fn of(version: &VersionHistory<'_>) -> Self {
        Self {
            priority: version.spec.priority,
            group: version.spec.group,
        }
    }

    pub(super) fn name(self) -> String {
        match self.group {
            Some(group) => format!("group {group}, priority {}", self.priority),
            None => format!("no group, priority {}", self.priority),
        }
    }
}

/// A delivery of a job of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineDelivery<'a> {
    pub(super) line: Line,
    pub(super) job: &'a JobHistory,
    pub(super) delivery: &'a VersionDelivery,
}

impl LineDelivery<'_> {
    /// Returns the span in which it can have begun.
    pub(super) const fn begin(&self) -> Span {
        self.delivery.begin
    }

    /// Returns the span in which its unit of a rate was taken.
    pub(super) fn unit_taken(&self) -> Span {
        let asked = self.delivery.span;
        Span {
            from: asked.from,
            to: asked.to.min(self.begin().to),
        }
    }

    /// Returns the time until which its lease lasts at least: until its end, with the extensions that were answered
    /// before `at`, or until the first request was sent that may have ended it.
    pub(super) fn held_at_least_until(&self, at: UnixMicros) -> UnixMicros {
        let events = self.job.events.iter();
        let ends = events.filter(|event| event.may_end_attempt(self.delivery.attempt));
        let held = self.job.held_until(self.delivery, at);
        ends.map(|event| event.span.from).fold(held, u64::min)
    }

    /// Returns the time by which its lease has certainly ended: a settle of it was answered, or its job has come again.
    fn ended_by(&self) -> UnixMicros {
        let attempt = self.delivery.attempt;
        let settles = self.job.settles(attempt);
        let settled = settles.filter_map(|(event, action, result)| {
            let is_end = result.is_some() && !matches!(action, SettleAction::Touch(_));
            is_end.then_some(event.span.to)
        });
        let later = self.job.deliveries.iter();
        let later = later.filter(|it| it.attempt > attempt);
        let ends = settled.chain(later.map(|it| it.begin.to));
        ends.min().unwrap_or(UnixMicros::MAX)
    }
}

/// A job that was certainly ready all the time from its publish to its first delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingJob<'a> {
    pub(super) version: &'a VersionHistory<'a>,
    pub(super) line: Line,
    /// When it was certainly ready.
    pub(super) ready: Span,
}

impl<'a> WaitingJob<'a> {
    fn new(version: &'a VersionHistory<'a>, observed: &Observed<'_>) -> Option<Self> {
        let spec = version.spec;
        let job = observed.jobs.get(version.id.as_ref()?)?;
        let first = job.deliveries.first()?;
        let is_ready_at_once = spec.delay == 0 && spec.run_at.is_none() && spec.key.is_none();
        let is_untouched = job.events.iter().all(|event| {
            matches!(
                event.kind,
                EventKind::Published { .. } | EventKind::Settled { .. } | EventKind::Shown(_)
            )
        });
        let ready = Span {
            from: version.stored().to,
            to: first.begin.from,
        };
        let is_certain = version.storing() == Storing::Certain
            && first.attempt == Some(1)
            && is_ready_at_once
            && is_untouched
            && ready.from <= ready.to;
        is_certain.then(|| Self {
            version,
            line: Line::of(version),
            ready,
        })
    }
}

/// What is known of a queue whose jobs wait.
#[derive(Debug)]
pub(super) struct HeldQueueHistory<'a> {
    pub(super) queue: HeldQueue,
    /// All deliveries, sorted by begin.
    pub(super) deliveries: Vec<LineDelivery<'a>>,
    pub(super) waiting: Vec<WaitingJob<'a>>,
    /// When consumers left without a job: jobs may have been leased for them and released, which no client sees.
    left: Vec<Span>,
}

impl<'a> HeldQueueHistory<'a> {
    pub(super) fn new(
        queue: HeldQueue,
        observed: &'a Observed<'a>,
        context: RuleContext<'_>,
    ) -> Self {
        let jobs = observed
            .jobs
            .values()
            .filter(|job| job.queue == queue.queue);
        let deliveries = jobs.flat_map(|job| job.deliveries.iter().map(move |it| (job, it)));
        let deliveries = deliveries.filter_map(|(job, delivery)| {
            let version = observed.versions.get(&delivery.number)?;
            let line = Line::of(version);
            Some(LineDelivery {
                line,
                job,
                delivery,
            })
        });
        let mut deliveries: Vec<LineDelivery<'_>> = deliveries.collect();
        deliveries.sort_by_key(|it| it.begin().from);
        let versions = observed.versions.values();
        let versions = versions.filter(|version| version.queue == queue.queue);
        Self {
            queue,
            deliveries,
            waiting: versions
                .filter_map(|version| WaitingJob::new(version, observed))
                .collect(),
            left: context.queues.abandoned_waits(queue.queue, context.excuses),
        }
    }

    /// Returns the deliveries that certainly began in this span.
    pub(super) fn within(&self, span: Span) -> impl Iterator<Item = &LineDelivery<'a>> {
        let first = self
            .deliveries
            .partition_point(|it| it.begin().from < span.from);
        let from_first = self.deliveries[first..].iter();
        let begun = from_first.take_while(move |it| it.begin().from <= span.to);
        begun.filter(move |it| it.begin().to <= span.to)
    }

    /// Returns the deliveries that can have begun in this span.
    pub(super) fn possibly_within(&self, span: Span) -> impl Iterator<Item = &LineDelivery<'a>> {
        let all = self.deliveries.iter();
        all.filter(move |it| it.begin().overlaps(&span))
    }

    /// Whether everything that was leased in this span is known, while this job waited and could have been leased: no
    /// fault, no consumer that left, and a place in its group.
    pub(super) fn shows_turns(
        &self,
        waiting: &WaitingJob<'_>,
        during: Span,
        context: RuleContext<'_>,
    ) -> bool {
        let life = Span {
            from: waiting.version.stored().from,
            to: during.to,
        };
        context.excuses.is_without_fault(life)
            && context.excuses.has_one_pool(life)
            && !self.left.iter().any(|left| left.overlaps(&during))
            && self.has_place(waiting.line.group, during)
    }

    /// Whether a group certainly had a place during all of this span.
    fn has_place(&self, group: Option<u8>, during: Span) -> bool {
        let (Some(max), Some(_)) = (self.queue.group_max_running, group) else {
            return true;
        };
        let of_group = self.deliveries.iter().filter(|it| it.line.group == group);
        let running =
            of_group.filter(|it| it.begin().from <= during.to && it.ended_by() >= during.from);
        (running.count() as u64) < max
    }
}
