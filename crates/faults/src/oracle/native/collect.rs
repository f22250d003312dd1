//! Sorts the requests of a history by version and job.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_api_types::publish::PublishResult;
use tidegate_api_types::values::StateName;

use super::NativeHistory;
use super::job::{EventKind, JobEvent, NativeJob, VersionDelivery};
use super::version::{PublishRequest, Published, Storing, VersionHistory};
use crate::history::{
    CancelEffect, ClientRequest, HeldJob, History, JobAddress, JobInAnswer, JobParameters,
    JobVersion, NativeAnswer, NativeCall, Operation, PublishMode, RequestOutcome, ReservedVersion,
    SettleResult, SettleVerb, ShownVersion, Span, VersionResult,
};
use crate::oracle::cut::truncate_to_ms;
use crate::oracle::excuses::Excuses;
use crate::oracle::verdict::{Defect, Verdict};

const MS: u64 = 1000;
/// The length of an id without the digit that marks a version on the lmstfy wire.
const ID_LENGTH: usize = 26;

/// Collects a history.
pub(super) struct Collector<'a, 'v> {
    excuses: &'v Excuses<'a>,
    verdict: &'v mut Verdict,
    all: NativeHistory<'a>,
}

impl<'a, 'v> Collector<'a, 'v> {
    pub(super) fn collect(
        history: &'a History,
        excuses: &'v Excuses<'a>,
        verdict: &'v mut Verdict,
    ) -> NativeHistory<'a> {
        let mut collector = Self {
            excuses,
            verdict,
            all: NativeHistory::default(),
        };
        let is_native = |queue: &u16| history.native.contains(queue);
        for operation in &history.operations {
            if operation.request.queues().iter().any(is_native) {
                collector.publish(operation);
            }
        }
        for operation in &history.operations {
            collector.deliveries(operation, &is_native);
        }
        collector.prove_atomic(history);
        for operation in &history.operations {
            collector.events(operation);
        }
        collector.finish(history);
        collector.all
    }

    fn publish(&mut self, operation: &'a Operation) {
        match &operation.request {
            ClientRequest::Native(NativeCall::Publish {
                queue, versions, ..
            }) => {
                for (index, version) in versions.iter().enumerate() {
                    let result = result_of(operation, index);
                    self.add_version(*queue, version.clone(), true, operation, result);
                }
            }
            ClientRequest::Publish { queue, jobs } => {
                for (index, terms) in jobs.iter().enumerate() {
                    let result = lmstfy_result(operation, index);
                    self.add_version(*queue, lmstfy_version(terms), false, operation, result);
                }
            }
            _ => {}
        }
    }

    fn add_version(
        &mut self,
        queue: u16,
        spec: JobVersion,
        is_native: bool,
        operation: &'a Operation,
        result: Published,
    ) {
        let number = spec.terms.number;
        let result = match result {
            Published::Open if self.excuses.was_not_executed(operation) => Published::Nothing,
            other => other,
        };
        let by = self.excuses.carried_out_by(operation);
        if let (Some(key), false) = (spec.key, self.all.versions.contains_key(&number)) {
            self.all.keys.entry((queue, key)).or_default().push(number);
        }
        let version = self.all.versions.entry(number);
        let version = version.or_insert_with(|| VersionHistory {
            queue,
            spec,
            is_native,
            publishes: Vec::new(),
            id: None,
            is_proven: false,
        });
        let key = version.spec.key;
        if let Published::Job {
            id,
            outcome,
            state,
            is_replayed,
            ..
        } = &result
        {
            if *outcome != PublishResult::Exists {
                version.id.get_or_insert_with(|| id.clone());
            }
            let kind = EventKind::Published {
                outcome: *outcome,
                state: *state,
            };
            let (id, is_replayed, span) = (id.clone(), *is_replayed, operation.span);
            let job = self.job(&id, queue, key);
            job.counts_failures |= is_native;
            // A repeated request may be answered before the first one is known to have been carried out.
            if !is_replayed {
                job.events.push(JobEvent { span, by, kind });
            }
        }
        let version = self.all.versions.get_mut(&number);
        version
            .expect("it was just added")
            .publishes
            .push(PublishRequest {
                operation,
                by,
                result,
            });
    }

    fn job(&mut self, id: &str, queue: u16, key: Option<u32>) -> &mut NativeJob {
        let job = self.all.jobs.entry(id.to_owned());
        job.or_insert_with(|| NativeJob {
            id: id.to_owned(),
            queue,
            key,
            ..NativeJob::default()
        })
    }

    fn deliveries(&mut self, operation: &'a Operation, is_native: &impl Fn(&u16) -> bool) {
        match (&operation.request, &operation.outcome) {
            (
                ClientRequest::Native(NativeCall::Reserve { queues, .. }),
                RequestOutcome::Native(NativeAnswer::Reserved(jobs)),
            ) => {
                for got in jobs {
                    let delivery = self.native_delivery(operation, got);
                    let seen = (&*got.id, got.queue, got.number);
                    self.add_delivery(operation, queues, seen, got.reserved, delivery);
                    self.check_key(operation, got);
                }
            }
            (ClientRequest::Consume { queues, ttr, .. }, RequestOutcome::Delivered(jobs)) => {
                let jobs = jobs.iter().filter(|got| queues.contains(&got.queue));
                for got in jobs.filter(|got| is_native(&got.queue)) {
                    let delivery = self.lmstfy_delivery(operation, got, *ttr);
                    let seen = (bare(&got.id), got.queue, got.number);
                    self.add_delivery(operation, queues, seen, got.reserved(), delivery);
                }
            }
            _ => {}
        }
    }

    fn native_delivery(&self, operation: &Operation, got: &ReservedVersion) -> VersionDelivery {
        VersionDelivery {
            number: got.number.unwrap_or_default(),
            attempt: Some(got.attempt),
            begin: self.begin(operation, got.reserved),
            lease_until: got.lease_until,
            run_at: Some(got.run_at),
            failures: Some(got.failures),
            tries_left: None,
            span: operation.span,
        }
    }

    fn lmstfy_delivery(
        &self,
        operation: &Operation,
        got: &JobInAnswer,
        ttr: u64,
    ) -> VersionDelivery {
        VersionDelivery {
            number: got.number.unwrap_or_default(),
            attempt: None,
            begin: self.begin(operation, got.reserved()),
            lease_until: got.reserved() + ttr,
            run_at: None,
            failures: None,
            tries_left: Some(got.tries_left),
            span: operation.span,
        }
    }

    /// The span in which a lease can have begun. If the clock of Redis was moved, its time in the answer says nothing.
    fn begin(&self, operation: &Operation, reserved: u64) -> Span {
        match self.excuses.has_reliable_clock(operation.span) {
            true => Span {
                from: reserved,
                to: reserved + MS,
            },
            false => operation.span,
        }
    }

    fn add_delivery(
        &mut self,
        operation: &Operation,
        asked: &[u16],
        (id, queue, number): (&str, u16, Option<u64>),
        reserved: u64,
        delivery: VersionDelivery,
    ) {
        let mut wrong = Vec::new();
        let Some(version) = number.and_then(|number| self.all.versions.get_mut(&number)) else {
            let text = format!(
                "{id}: it was not published, or not with this payload and these attributes"
            );
            return self
                .verdict
                .add_finding(Defect::Foreign, operation.span.to, text);
        };
        let life = Span {
            from: version.stored().from,
            to: operation.span.to,
        };
        // Idempotency keys are kept in one deployment, for a time by the clock of Redis.
        let may_lose = self.excuses.may_lose(life)
            || !self.excuses.has_reliable_clock(life)
            || !self.excuses.has_one_pool(life);
        match &version.id {
            Some(known) if known != id && !may_lose => {
                let defect = match version.spec.repeat {
                    Some(_) => Defect::Repeated,
                    None => Defect::Foreign,
                };
                wrong.push((defect, format!("{} is in {known}, too", version.name())));
            }
            Some(_) => {}
            None => version.id = Some(id.to_owned()),
        }
        if version.storing() == Storing::Never && !may_lose {
            wrong.push((
                Defect::Foreign,
                format!("{} came, which no request stored", version.name()),
            ));
        }
        if queue != version.queue || !asked.contains(&queue) {
            wrong.push((
                Defect::Foreign,
                format!("{} came from another queue", version.name()),
            ));
        }
        let is_within =
            reserved >= truncate_to_ms(operation.span.from) && reserved <= operation.span.to;
        if !is_within && self.excuses.has_reliable_clock(operation.span) {
            wrong.push((
                Defect::Foreign,
                format!(
                    "the lease of {} began outside of the request",
                    version.name()
                ),
            ));
        }
        let (key, is_native) = (version.spec.key, version.is_native);
        for (defect, text) in wrong {
            self.verdict
                .add_finding(defect, operation.span.to, format!("{id}: {text}"));
        }
        let job = self.job(id, queue, key);
        job.counts_failures |= is_native;
        job.deliveries.push(delivery);
    }

    /// A delivery shows the key of its job.
    fn check_key(&mut self, operation: &Operation, got: &ReservedVersion) {
        let version = got.number.and_then(|number| self.all.versions.get(&number));
        if let Some(version) = version.filter(|it| it.spec.key != got.key) {
            let text = format!("{}: {} came with another key", got.id, version.name());
            self.verdict
                .add_finding(Defect::Foreign, operation.span.to, text);
        }
    }

    /// Marks the versions of an atomic request that has no answer, if one of them was delivered.
    fn prove_atomic(&mut self, history: &History) {
        let delivered: BTreeSet<u64> = self
            .all
            .jobs
            .values()
            .flat_map(|job| job.deliveries.iter().map(|it| it.number))
            .collect();
        for operation in &history.operations {
            let ClientRequest::Native(NativeCall::Publish {
                mode: PublishMode::Atomic,
                versions,
                ..
            }) = &operation.request
            else {
                continue;
            };
            let numbers = || versions.iter().map(|version| version.terms.number);
            if operation.outcome.is_unknown() && numbers().any(|it| delivered.contains(&it)) {
                for number in numbers() {
                    if let Some(version) = self.all.versions.get_mut(&number) {
                        version.is_proven = true;
                    }
                }
            }
        }
    }

    fn events(&mut self, operation: &'a Operation) {
        let span = operation.span;
        let by = self.excuses.carried_out_by(operation);
        let was_executed = !matches!(
            operation.outcome,
            RequestOutcome::NotSent | RequestOutcome::Refused(_)
        );
        match &operation.request {
            ClientRequest::Ack { job } if was_executed => {
                let id = self.all.versions.get(job).and_then(|it| it.id.clone());
                let is_done = operation.outcome == RequestOutcome::Deleted;
                let kind = EventKind::Settled {
                    attempt: None,
                    number: *job,
                    verb: SettleVerb::Ack,
                    result: is_done.then_some(SettleResult::Done),
                };
                if let Some(job) = id.and_then(|id| self.all.jobs.get_mut(&id)) {
                    job.events.push(JobEvent { span, by, kind });
                }
            }
            ClientRequest::Native(NativeCall::Settle { verb, jobs }) if was_executed => {
                let results = match &operation.outcome {
                    RequestOutcome::Native(NativeAnswer::Settled(results)) => Some(results),
                    _ => None,
                };
                for (index, held) in jobs.iter().enumerate() {
                    let result = results.and_then(|it| it.get(index).copied());
                    let kind = settled(held, *verb, result);
                    if let Some(job) = self.all.jobs.get_mut(&held.id) {
                        job.events.push(JobEvent { span, by, kind });
                    }
                }
            }
            ClientRequest::Native(call) if was_executed => {
                if let Some((queue, address, id, kind)) = edit(call, &operation.outcome, span, by) {
                    self.add_edit(queue, address, id, JobEvent { span, by, kind });
                }
            }
            _ => {}
        }
    }

    /// Adds an event to the job that the answer names; without an answer to all that the request may have meant.
    fn add_edit(&mut self, queue: u16, address: &JobAddress, id: Option<&str>, event: JobEvent) {
        let ids: Vec<String> = match (id, address) {
            (Some(id), _) => vec![id.to_owned()],
            (None, JobAddress::Id(id)) => vec![id.clone()],
            (None, JobAddress::Key(key)) => {
                let jobs = self.all.jobs_of_key(queue, *key);
                jobs.map(|job| job.id.clone()).collect()
            }
        };
        for id in ids {
            if let Some(job) = self.all.jobs.get_mut(&id) {
                job.events.push(event.clone());
            }
        }
    }

    fn finish(&mut self, history: &History) {
        let lives: BTreeMap<String, u64> =
            self.all
                .versions
                .values()
                .fold(BTreeMap::new(), |mut lives, version| {
                    if let Some(id) = &version.id {
                        let from = lives.entry(id.clone()).or_insert(u64::MAX);
                        *from = version.stored().from.min(*from);
                    }
                    lives
                });
        for job in self.all.jobs.values_mut() {
            let first = lives.get(&job.id).copied().unwrap_or(history.began);
            let last = job.deliveries.iter().map(|it| it.span.to).max();
            let life = Span {
                from: first,
                to: last.unwrap_or(history.ended),
            };
            job.has_reliable_times = self.excuses.has_reliable_clock(life);
            match job.has_reliable_times {
                true => job.deliveries.sort_by_key(|it| (it.begin.from, it.attempt)),
                false => job.deliveries.sort_by_key(|it| (it.attempt, it.span.to)),
            }
            job.events.sort_by_key(|event| event.span.from);
        }
    }
}

fn bare(id: &str) -> &str {
    &id[id.len().saturating_sub(ID_LENGTH)..]
}

fn lmstfy_version(terms: &JobParameters) -> JobVersion {
    JobVersion {
        terms: *terms,
        ..JobVersion::default()
    }
}

fn lmstfy_result(operation: &Operation, index: usize) -> Published {
    match &operation.outcome {
        RequestOutcome::Published(ids) => Published::Job {
            id: ids.get(index).map_or("", |id| bare(id)).to_owned(),
            outcome: PublishResult::Created,
            state: StateName::Ready,
            run_at: None,
            is_replayed: false,
        },
        RequestOutcome::NotSent | RequestOutcome::Refused(_) => Published::Nothing,
        _ => Published::Open,
    }
}

fn result_of(operation: &Operation, index: usize) -> Published {
    match &operation.outcome {
        RequestOutcome::Native(NativeAnswer::Published(results)) => match results.get(index) {
            Some(VersionResult::Job {
                id,
                outcome,
                state,
                run_at,
                is_replayed,
            }) => match (outcome, is_replayed) {
                (PublishResult::Exists, _) => Published::Job {
                    id: id.clone(),
                    outcome: PublishResult::Exists,
                    state: *state,
                    run_at: None,
                    is_replayed: false,
                },
                _ => Published::Job {
                    id: id.clone(),
                    outcome: *outcome,
                    state: *state,
                    run_at: Some(*run_at),
                    is_replayed: *is_replayed,
                },
            },
            Some(VersionResult::Refused(_)) => Published::Nothing,
            _ => Published::Open,
        },
        RequestOutcome::NotSent | RequestOutcome::Refused(_) => Published::Nothing,
        _ => Published::Open,
    }
}

fn settled(held: &HeldJob, verb: SettleVerb, result: Option<SettleResult>) -> EventKind {
    EventKind::Settled {
        attempt: Some(held.attempt),
        number: held.number,
        verb,
        result,
    }
}

type Edit<'a> = (u16, &'a JobAddress, Option<&'a str>, EventKind);

/// Returns what a cancel, change, promote or show did; `None` if it did nothing.
fn edit<'a>(
    call: &'a NativeCall,
    outcome: &'a RequestOutcome,
    span: Span,
    by: u64,
) -> Option<Edit<'a>> {
    let answer = match outcome {
        RequestOutcome::Native(NativeAnswer::NotFound | NativeAnswer::Conflict) => return None,
        RequestOutcome::Native(answer) => Some(answer),
        _ => None,
    };
    match call {
        NativeCall::Cancel { queue, job, .. } => {
            let (id, effect) = match answer {
                Some(NativeAnswer::Cancelled { id, effect }) => (Some(id.as_str()), Some(*effect)),
                _ => (None, None),
            };
            let effect: Option<CancelEffect> = effect;
            Some((*queue, job, id, EventKind::Cancelled(effect)))
        }
        NativeCall::Change {
            queue,
            job,
            delay,
            run_at,
        } => {
            let (id, due) = match answer {
                Some(NativeAnswer::Due { id, run_at }) => (
                    Some(id.as_str()),
                    Span {
                        from: *run_at,
                        to: *run_at,
                    },
                ),
                _ => {
                    let from = run_at.unwrap_or(span.from / MS * MS + delay);
                    let to = run_at.map_or(by.saturating_add(delay + MS), |at| at.max(by));
                    (None, Span { from, to })
                }
            };
            let is_certain = id.is_some();
            Some((*queue, job, id, EventKind::Changed { due, is_certain }))
        }
        NativeCall::Promote { queue, job } => {
            let id = match answer {
                Some(NativeAnswer::Due { id, .. }) => Some(id.as_str()),
                _ => None,
            };
            let is_certain = id.is_some();
            Some((*queue, job, id, EventKind::Promoted { is_certain }))
        }
        NativeCall::Show { queue, job } => match answer {
            Some(NativeAnswer::Shown(shown)) => {
                let shown: &ShownVersion = shown;
                let kind = EventKind::Shown(shown.clone());
                Some((*queue, job, Some(shown.id.as_str()), kind))
            }
            _ => None,
        },
        _ => None,
    }
}
