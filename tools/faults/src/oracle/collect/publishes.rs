//! Requests that publish versions.

use std::collections::BTreeSet;

use tidegate_core::v1::publish::PublishResult;

use super::super::excuses::Excuses;
use super::super::job::{EventKind, JobEvent};
use super::super::observed::Observed;
use super::super::version::{PublishEffect, VersionHistory, VersionPublish};
use crate::history::{
    ClientRequest, History, Operation, PublishMode, RequestOutcome, VersionResult, VersionSpec,
};

/// Adds the versions of all publish requests, and the jobs that their answers show.
pub(super) fn collect<'a>(
    history: &'a History,
    excuses: &Excuses<'_>,
    observed: &mut Observed<'a>,
) {
    for operation in &history.operations {
        if let ClientRequest::Publish {
            queue, versions, ..
        } = &operation.request
        {
            for (index, spec) in versions.iter().enumerate() {
                let effect = match effect(operation, index) {
                    PublishEffect::Unknown if excuses.was_not_executed(operation) => {
                        PublishEffect::Nothing
                    }
                    other => other,
                };
                let by = excuses.carried_out_by(operation);
                let publish = VersionPublish {
                    operation,
                    index,
                    by,
                    effect,
                };
                add(publish, *queue, spec, observed);
            }
        }
    }
}

fn effect(operation: &Operation, index: usize) -> PublishEffect {
    let results = match &operation.outcome {
        RequestOutcome::Published(results) => results,
        RequestOutcome::NotSent | RequestOutcome::Refused(_) => return PublishEffect::Nothing,
        _ => return PublishEffect::Unknown,
    };
    match results.get(index) {
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
    }
}

fn add<'a>(
    publish: VersionPublish<'a>,
    queue: u16,
    spec: &'a VersionSpec,
    observed: &mut Observed<'a>,
) {
    let number = spec.number;
    if let (Some(key), false) = (spec.key, observed.versions.contains_key(&number)) {
        observed.keys.entry((queue, key)).or_default().push(number);
    }
    let version = observed.versions.entry(number);
    let version = version.or_insert_with(|| VersionHistory {
        queue,
        spec,
        wire: publish.operation.wire,
        publishes: Vec::new(),
        id: None,
        created: None,
        is_proven: false,
    });
    version.publishes.push(publish.clone());
    if let PublishEffect::Job { id, outcome, .. } = &publish.effect
        && *outcome != PublishResult::Exists
    {
        version.id.get_or_insert_with(|| id.clone());
    }
    let is_native = version.is_native();
    add_event(&publish, queue, number, is_native, observed);
}

/// Adds the publish to the job that its answer shows.
fn add_event(
    publish: &VersionPublish<'_>,
    queue: u16,
    version: u64,
    is_native: bool,
    observed: &mut Observed<'_>,
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
    let job = observed.job_mut(id, queue, version);
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
pub(super) fn prove_atomic(history: &History, observed: &mut Observed<'_>) {
    let deliveries = observed.jobs.values().flat_map(|job| &job.deliveries);
    let delivered: BTreeSet<u64> = deliveries.map(|it| it.number).collect();
    for operation in &history.operations {
        let ClientRequest::Publish {
            mode: PublishMode::Atomic,
            versions,
            ..
        } = &operation.request
        else {
            continue;
        };
        let numbers = || versions.iter().map(|version| version.number);
        if operation.outcome.is_unknown() && numbers().any(|it| delivered.contains(&it)) {
            for number in numbers() {
                if let Some(version) = observed.versions.get_mut(&number) {
                    version.is_proven = true;
                }
            }
        }
    }
}
