//! The HTTP form of publish requests.

use serde_json::Value;
use tidegate_core::v1::FieldChange;
use tidegate_core::v1::publish::{BatchBody, BatchItem, JobOptions};
use tidegate_core::v1::retry::RetryChange;
use tidegate_core::v1::values::{
    ContentType, DurationMs, JobAttributes, JobPayload, Priority, Timestamp,
};

use super::http_request::{HttpRequest, add_parameter};
use super::key_text::key_text;
use super::payload::{attributes, body};
use super::queue_name::queue_name;
use crate::history::{PublishMode, VersionSpec};

const MS: u64 = 1000;

pub(super) fn publish(queue: u16, mode: PublishMode, versions: &[VersionSpec]) -> HttpRequest {
    match mode {
        PublishMode::Single => single(queue, &versions[0]),
        PublishMode::Batch => batch(queue, false, versions),
        PublishMode::Atomic => batch(queue, true, versions),
    }
}

/// The options are in the query and in headers, and the payload is the body.
fn single(queue: u16, version: &VersionSpec) -> HttpRequest {
    let options = serde_json::to_value(options(version)).expect("options are JSON");
    let mut path = format!("/queues/{}/jobs", queue_name(queue));
    if version.wait > 0 {
        let wait = duration(version.wait).as_ms();
        path.push_str(&format!("/call?wait={wait}ms"));
    }
    let mut headers = vec![("Content-Type".to_owned(), content_type(version).to_string())];
    for (name, value) in options.as_object().into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match name.as_str() {
            "idempotency_key" => headers.push(("Idempotency-Key".to_owned(), text)),
            _ => add_parameter(&mut path, name, &text),
        }
    }
    let attributes = attributes(version).into_iter();
    headers.extend(attributes.map(|(name, value)| (format!("Job-Attr-{name}"), value)));
    HttpRequest {
        method: "POST",
        path,
        headers,
        body: body(version),
    }
}

fn batch(queue: u16, atomic: bool, versions: &[VersionSpec]) -> HttpRequest {
    let jobs = versions.iter().map(|version| {
        let attributes = attributes(version).into_iter();
        let attributes = attributes.map(|(name, value)| (name.to_lowercase(), value));
        let attributes = JobAttributes(attributes.collect());
        BatchItem::new(payload(version), attributes, options(version))
    });
    let body = BatchBody {
        jobs: jobs.collect(),
        atomic,
    };
    let path = format!("/queues/{}/jobs/batch", queue_name(queue));
    HttpRequest::json("POST", path, &body)
}

fn options(version: &VersionSpec) -> JobOptions {
    let unless_zero = |time: u64| (time > 0).then(|| duration(time));
    let attempts =
        (version.tries > 0).then(|| version.tries.try_into().expect("a number of attempts"));
    JobOptions {
        delay: unless_zero(version.delay),
        run_at: version.run_at.map(|at| Timestamp::saturating(at / MS)),
        priority: (version.priority > 0).then(|| Priority::saturating(version.priority)),
        group: version.group.map(|group| {
            let text = format!("group-{group}");
            text.parse().expect("a group")
        }),
        key: version.key.map(|key| key_text(key).parse().expect("a key")),
        if_exists: version.key.map(|_| version.if_exists),
        retain: unless_zero(version.retain),
        idempotency_key: version.idempotency_key.map(|key| {
            let text = format!("request-{key}");
            text.parse().expect("an idempotency key")
        }),
        lease: unless_zero(version.lease),
        max_attempts: attempts,
        retry: version.retry.as_ref().map(|retry| RetryChange {
            delays: FieldChange::Set(retry.delays.iter().copied().map(duration).collect()),
            jitter: FieldChange::Set(retry.jitter as f64 / 1000.0),
            ..RetryChange::default()
        }),
        ..JobOptions::default()
    }
}

fn content_type(version: &VersionSpec) -> ContentType {
    match version.is_binary {
        true => ContentType::BYTES,
        false => ContentType::JSON,
    }
}

fn payload(version: &VersionSpec) -> JobPayload {
    JobPayload {
        bytes: body(version),
        content_type: content_type(version),
    }
}

const fn duration(time: u64) -> DurationMs {
    DurationMs::saturating(time / MS)
}
