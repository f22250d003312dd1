//! The HTTP form of native requests.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_api_types::consume::ReserveBody;
use tidegate_api_types::publish::{BatchBody, BatchItem, JobOptions};
use tidegate_api_types::retry::RetryPolicyBody;
use tidegate_api_types::values::{
    ContentType, DurationMs, IfRunningOption, JobAttributes, JobPayload, TimestampMs,
};

use crate::history::{HeldJob, JobAddress, JobVersion, NativeCall, PublishMode, SettleVerb};
use crate::traffic::payload::{attributes, body};
use crate::traffic::shared::queue_name;

const MS: u64 = 1000;

/// A request, without namespace and credential.
pub(super) struct HttpForm {
    pub(super) method: &'static str,
    /// Follows the namespace.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// What of a reserve call the judge does not need.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WaitTime {
    pub(super) ms: u64,
}

/// Returns the text of a key. Some texts need escapes, and some cannot be in a path.
pub(super) fn key_text(key: u32) -> String {
    match key % 4 {
        0 => format!("order/{key}"),
        1 => format!("bestellung für {key}"),
        _ => format!("order-{key}"),
    }
}

/// Returns the number of the key with this text.
pub(super) fn key_number(text: &str) -> Option<u32> {
    let digits = text.rsplit(['/', ' ', '-']).next()?;
    let key = digits.parse().ok()?;
    (key_text(key) == text).then_some(key)
}

impl HttpForm {
    /// Returns the form of a call; `wait` is for a reserve.
    pub(super) fn of(call: &NativeCall, wait: WaitTime) -> Self {
        match call {
            NativeCall::Publish {
                queue,
                mode: PublishMode::Single,
                versions,
            } => publish(*queue, &versions[0]),
            NativeCall::Publish {
                queue,
                mode,
                versions,
            } => {
                let jobs = versions.iter().map(|version| {
                    let attributes = attributes(&version.terms).into_iter();
                    let attributes = attributes.map(|(name, value)| (name.to_lowercase(), value));
                    BatchItem::new(
                        payload(version),
                        JobAttributes(attributes.collect()),
                        options(version),
                    )
                });
                let body = BatchBody {
                    jobs: jobs.collect(),
                    atomic: *mode == PublishMode::Atomic,
                };
                let path = format!("/queues/{}/jobs/batch", queue_name(*queue));
                Self::json("POST", path, &body)
            }
            NativeCall::Reserve {
                queues,
                lease,
                max_jobs,
            } => {
                let names = queues.iter().map(|queue| queue_name(*queue));
                let parsed = names.map(|name| name.parse().expect("the name of a queue"));
                let parsed: Vec<tidegate_api_types::values::QueueNameText> = parsed.collect();
                let body = ReserveBody {
                    queues: parsed.into_iter().map(Into::into).collect(),
                    order: None,
                    max_jobs: (*max_jobs).try_into().expect("a number of jobs"),
                    wait: DurationMs::saturating(wait.ms),
                    lease: lease.map(duration),
                    worker: None,
                    format: tidegate_api_types::values::PayloadFormat::Json,
                };
                Self::json("POST", "/reserve".to_owned(), &body)
            }
            NativeCall::Settle { verb, jobs } => settle(*verb, jobs),
            NativeCall::Cancel {
                queue,
                job,
                running,
            } => {
                let running = match running {
                    IfRunningOption::Refuse => "refuse",
                    IfRunningOption::Ask => "ask",
                    IfRunningOption::Revoke => "revoke",
                };
                let (path, query) = job_path(*queue, job, "");
                Self::empty("DELETE", format!("{path}?running={running}{query}"))
            }
            NativeCall::Change {
                queue,
                job,
                delay,
                run_at,
            } => {
                let body = match run_at {
                    Some(at) => json!({"run_at": at / MS}),
                    None => json!({"delay": delay / MS}),
                };
                let (path, query) = job_path(*queue, job, "");
                Self::json("PATCH", format!("{path}?{}", unjoined(&query)), &body)
            }
            NativeCall::Promote { queue, job } => {
                let (path, query) = job_path(*queue, job, "/promote");
                Self::empty("POST", format!("{path}?{}", unjoined(&query)))
            }
            NativeCall::Show { queue, job } => {
                let (path, query) = job_path(*queue, job, "");
                Self::empty("GET", format!("{path}?{}", unjoined(&query)))
            }
        }
    }

    fn json(method: &'static str, path: String, body: &impl Serialize) -> Self {
        Self {
            method,
            path,
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: serde_json::to_vec(body).expect("requests are JSON"),
        }
    }

    const fn empty(method: &'static str, path: String) -> Self {
        Self {
            method,
            path,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }
}

fn unjoined(query: &str) -> &str {
    query.strip_prefix('&').unwrap_or_default()
}

/// Returns the path of a job, and what its query needs for it.
fn job_path(queue: u16, job: &JobAddress, rest: &str) -> (String, String) {
    let (segment, query) = match job {
        JobAddress::Id(id) => (id.clone(), String::new()),
        JobAddress::Key(key) if key_text(*key).contains('/') => {
            ("-".to_owned(), format!("&key={}", escaped(&key_text(*key))))
        }
        JobAddress::Key(key) => (format!("key:{}", escaped(&key_text(*key))), String::new()),
    };
    let path = format!("/queues/{}/jobs/{segment}{rest}", queue_name(queue));
    (path, query)
}

fn publish(queue: u16, version: &JobVersion) -> HttpForm {
    let options = serde_json::to_value(options(version)).expect("options are JSON");
    let mut query = String::new();
    let mut headers = vec![("Content-Type".to_owned(), content_type(version).to_string())];
    for (name, value) in options.as_object().into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if name == "idempotency_key" {
            headers.push(("Idempotency-Key".to_owned(), text));
        } else {
            let separator = if query.is_empty() { '?' } else { '&' };
            let _ = write!(query, "{separator}{name}={}", escaped(&text));
        }
    }
    let attributes = attributes(&version.terms).into_iter();
    headers.extend(attributes.map(|(name, value)| (format!("Job-Attr-{name}"), value)));
    HttpForm {
        method: "POST",
        path: format!("/queues/{}/jobs{query}", queue_name(queue)),
        headers,
        body: body(&version.terms),
    }
}

fn options(version: &JobVersion) -> JobOptions {
    let longer = |time: u64| (time > 0).then(|| duration(time));
    let attempts = (version.terms.tries > 0).then(|| {
        version
            .terms
            .tries
            .try_into()
            .expect("a number of attempts")
    });
    JobOptions {
        delay: longer(version.terms.delay),
        run_at: version.run_at.map(|at| TimestampMs::saturating(at / MS)),
        key: version.key.map(|key| key_text(key).parse().expect("a key")),
        if_exists: version.key.map(|_| version.if_exists),
        retain: longer(version.retain),
        idempotency_key: version.repeat.map(|repeat| {
            let text = format!("request-{repeat}");
            text.parse().expect("an idempotency key")
        }),
        lease: longer(version.lease),
        max_attempts: attempts,
        retry: version.retry.as_ref().map(|retry| RetryPolicyBody {
            delays: Some(retry.delays.iter().copied().map(duration).collect()),
            jitter: Some(retry.jitter as f64 / 1000.0),
            ..RetryPolicyBody::default()
        }),
        ..JobOptions::default()
    }
}

fn content_type(version: &JobVersion) -> ContentType {
    match version.terms.is_binary {
        true => ContentType::BYTES,
        false => ContentType::JSON,
    }
}

fn payload(version: &JobVersion) -> JobPayload {
    JobPayload {
        bytes: body(&version.terms),
        content_type: content_type(version),
    }
}

fn settle(verb: SettleVerb, jobs: &[HeldJob]) -> HttpForm {
    let leases: Vec<&str> = jobs.iter().map(|job| job.lease.as_str()).collect();
    let (path, body) = match verb {
        SettleVerb::Ack => ("/ack", json!({"leases": leases})),
        SettleVerb::Touch(lease) => ("/touch", json!({"leases": leases, "lease": lease / MS})),
        SettleVerb::Release(delay) => ("/release", json!({"leases": leases, "delay": delay / MS})),
        SettleVerb::Fail | SettleVerb::FailRetryIn(_) | SettleVerb::FailDead => {
            let items = leases.iter().map(|lease| {
                let mut item = json!({"lease": lease, "error": "the worker of a fault run"});
                match verb {
                    SettleVerb::FailRetryIn(delay) => item["retry_in"] = (delay / MS).into(),
                    SettleVerb::FailDead => item["dead"] = true.into(),
                    _ => {}
                }
                item
            });
            ("/fail", json!({"leases": items.collect::<Vec<_>>()}))
        }
    };
    HttpForm::json("POST", path.to_owned(), &body)
}

const fn duration(time: u64) -> DurationMs {
    DurationMs::saturating(time / MS)
}

/// Escapes all bytes of a text that have a meaning in a URL, or may have one.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        for key in 0..20 {
            assert_eq!(key_number(&key_text(key)), Some(key));
        }
        assert_eq!(key_number("order-x"), None);
        assert_eq!(escaped("a/ü"), "a%2F%C3%BC");
    }
}
