//! Requests that publish versions.

use std::collections::BTreeSet;

use tidegate_core::JobState;
use tidegate_core::v1::publish::PublishResult;

use crate::history::{
    ClientRequest, History, NativeAnswer, NativeCall, Operation, PublishMode, RequestOutcome,
    VersionResult, VersionSpec,
};
use crate::oracle::excuses::Excuses;
use crate::oracle::native::job::{EventKind, JobEvent, id_without_version};
use crate::oracle::native::native_history::NativeHistory;
use crate::oracle::native::version::{PublishEffect, VersionHistory, VersionPublish};

/// A version in a publish request.
struct RequestedVersion {
    queue: u16,
    spec: VersionSpec,
    is_native: bool,
    effect: PublishEffect,
}

/// Adds the versions of all publish requests, and the jobs that their answers show.
pub(super) fn collect<'a>(
    history: &'a History,
    excuses: &Excuses<'_>,
    observed: &mut NativeHistory<'a>,
) {
    let is_native = |queue: &u16| history.native.contains(queue);
    for operation in &history.operations {
        if operation.request.queues().iter().any(is_native) {
            for item in items_of(operation) {
                add(operation, item, excuses, observed);
            }
        }
    }
}

fn items_of(operation: &Operation) -> Vec<RequestedVersion> {
    match &operation.request {
        ClientRequest::Native(NativeCall::Publish {
            queue, versions, ..
        }) => {
            let versions = versions.iter().enumerate();
            let items = versions.map(|(index, spec)| RequestedVersion {
                queue: *queue,
                spec: spec.clone(),
                is_native: true,
                effect: native_effect(operation, index),
            });
            items.collect()
        }
        ClientRequest::Publish { queue, jobs } => {
            let jobs = jobs.iter().enumerate();
            let items = jobs.map(|(index, terms)| RequestedVersion {
                queue: *queue,
                spec: VersionSpec {
                    terms: *terms,
                    ..VersionSpec::default()
                },
                is_native: false,
                effect: lmstfy_effect(operation, index),
            });
            items.collect()
        }
        _ => Vec::new(),
    }
}

fn native_effect(operation: &Operation, index: usize) -> PublishEffect {
    match &operation.outcome {
        RequestOutcome::Native(NativeAnswer::Published(results)) => match results.get(index) {
            Some(VersionResult::Job {
                id,
                outcome,
                state,
                run_at,
                is_replayed,
            }) => {
                // The job of another version: neither its due time nor a repetition says anything about this one.
                let is_other = *outcome == PublishResult::Exists;
                PublishEffect::Job {
                    id: id.clone(),
                    outcome: *outcome,
                    state: *state,
                    run_at: run_at.filter(|_| !is_other),
                    is_replayed: *is_replayed && !is_other,
                }
            }
            Some(VersionResult::Refused(_)) => PublishEffect::Nothing,
            _ => PublishEffect::Unknown,
        },
        other => effect_without_result(other),
    }
}

fn lmstfy_effect(operation: &Operation, index: usize) -> PublishEffect {
    match &operation.outcome {
        RequestOutcome::Published(ids) => PublishEffect::Job {
            id: ids
                .get(index)
                .map_or("", |id| id_without_version(id))
                .to_owned(),
            outcome: PublishResult::Created,
            state: JobState::Ready,
            run_at: None,
            is_replayed: false,
        },
        other => effect_without_result(other),
    }
}

const fn effect_without_result(outcome: &RequestOutcome) -> PublishEffect {
    match outcome {
        RequestOutcome::NotSent | RequestOutcome::Refused(_) => PublishEffect::Nothing,
        _ => PublishEffect::Unknown,
    }
}

fn add<'a>(
    operation: &'a Operation,
    item: RequestedVersion,
    excuses: &Excuses<'_>,
    observed: &mut NativeHistory<'a>,
) {
    let effect = match item.effect {
        PublishEffect::Unknown if excuses.was_not_executed(operation) => PublishEffect::Nothing,
        other => other,
    };
    let publish = VersionPublish {
        operation,
        by: excuses.carried_out_by(operation),
        effect,
    };
    let number = item.spec.terms.number;
    if let (Some(key), false) = (item.spec.key, observed.versions.contains_key(&number)) {
        let numbers = observed.keys.entry((item.queue, key)).or_default();
        numbers.push(number);
    }
    let version = observed.versions.entry(number);
    let version = version.or_insert_with(|| VersionHistory {
        queue: item.queue,
        spec: item.spec,
        is_native: item.is_native,
        publishes: Vec::new(),
        id: None,
        is_proven: false,
    });
    version.publishes.push(publish.clone());
    if let PublishEffect::Job { id, outcome, .. } = &publish.effect
        && *outcome != PublishResult::Exists
    {
        version.id.get_or_insert_with(|| id.clone());
    }
    let key = version.spec.key;
    add_event(&publish, item.queue, key, item.is_native, observed);
}

/// Adds the publish to the job that its answer shows.
fn add_event(
    publish: &VersionPublish<'_>,
    queue: u16,
    key: Option<u32>,
    is_native: bool,
    observed: &mut NativeHistory<'_>,
) {
    let PublishEffect::Job {
        id,
        outcome,
        state,
        is_replayed,
        ..
    } = &publish.effect
    else {
        return;
    };
    let job = observed.job_mut(id, queue, key);
    job.counts_failures |= is_native;
    // A repeated request may be answered before the first one is known to have been carried out.
    if !is_replayed {
        job.events.push(JobEvent {
            span: publish.operation.span,
            by: publish.by,
            kind: EventKind::Published {
                outcome: *outcome,
                state: *state,
            },
        });
    }
}

/// Marks the versions of an atomic request that has no answer, if one of them was delivered.
pub(super) fn prove_atomic(history: &History, observed: &mut NativeHistory<'_>) {
    let deliveries = observed.jobs.values().flat_map(|job| &job.deliveries);
    let delivered: BTreeSet<u64> = deliveries.map(|it| it.number).collect();
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
                if let Some(version) = observed.versions.get_mut(&number) {
                    version.is_proven = true;
                }
            }
        }
    }
}
