//! Jobs to be published, made from the options of a request.

use tidegate_core::v1::job::stored_attributes;
use tidegate_core::v1::publish::{DueTime, JobOptions};
use tidegate_core::v1::retry::RetryChange;
use tidegate_core::v1::values::{JobAttributes, JobPayload};
use tidegate_core::{
    GroupHash, KeyHash, NativeOptions, NewJob, QueueKey, RecordExtension, RetryDelays, RetryPolicy,
};
use tidegate_store::{IdempotentRequest, PublishJob};
use xxhash_rust::xxh3::Xxh3Default;

/// The job that a request publishes.
pub(super) fn publish_job(
    queue: &QueueKey,
    payload: JobPayload,
    attributes: JobAttributes,
    options: &JobOptions,
) -> PublishJob {
    let idempotency = options
        .idempotency_key
        .as_ref()
        .map(|key| IdempotentRequest {
            key: KeyHash::of_request(queue, key.as_str()),
            request: request_hash(&payload, &attributes, options),
        });
    PublishJob {
        job: new_job(queue, payload, attributes, options),
        if_exists: options.if_exists.unwrap_or_default(),
        idempotency,
    }
}

pub(super) fn new_job(
    queue: &QueueKey,
    payload: JobPayload,
    attributes: JobAttributes,
    options: &JobOptions,
) -> NewJob {
    let (key, group) = (options.key.as_ref(), options.group.as_ref());
    let (delay_ms, run_at_ms) = match options.due() {
        DueTime::After(delay) => (delay.as_ms(), None),
        DueTime::At(instant) => (0, Some(instant.as_ms())),
    };
    let short = |ms: u64| u32::try_from(ms).unwrap_or(u32::MAX);
    let extension = RecordExtension {
        key_hash: key.map(|key| KeyHash::of_job(queue, key.as_str()).0),
        group_hash: group.map(|group| GroupHash::of(group.as_str())),
        lease_ms: options.lease.map(|lease| short(lease.as_ms())),
        max_attempts: options.attempts().map(|attempts| attempts.get()),
        retry: options.retry.as_ref().and_then(retry_delays),
        retain_ms: options.retain.map(|retain| short(retain.as_ms())),
    };
    NewJob {
        attributes: stored_attributes(attributes, &payload.content_type, key, group),
        body: payload.bytes.into(),
        delay_ms,
        ttl_ms: options
            .ttl
            .or(options.start_within)
            .map_or(0, |it| it.as_ms()),
        tries: options.max_deliveries.map_or(0, |it| it.get()),
        mark: false,
        native: Some(Box::new(NativeOptions {
            run_at_ms,
            priority: options.priority.unwrap_or_default().get(),
            is_awaited: false,
            losses_unlimited: false,
            extension,
        })),
    }
}

/// The delays of a job that has its own.
fn retry_delays(retry: &RetryChange) -> Option<RetryDelays> {
    if !retry.has_delays() && retry.jitter.is_kept() {
        return None;
    }
    let complete = retry.apply_to(&RetryPolicy::default()).ok()?;
    Some(complete.delays)
}

/// A hash of all that a request asks for, except for its idempotency key.
fn request_hash(payload: &JobPayload, attributes: &JobAttributes, options: &JobOptions) -> u64 {
    let mut hash = Xxh3Default::new();
    let parts = (attributes, &payload.content_type, options);
    hash.update(&serde_json::to_vec(&parts).unwrap_or_default());
    hash.update(&payload.bytes);
    hash.digest()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash(options: serde_json::Value) -> u64 {
        let payload = JobPayload {
            bytes: b"{}".to_vec(),
            content_type: "application/json".parse().unwrap(),
        };
        let attributes = serde_json::from_value(json!({"tenant": "a"})).unwrap();
        let options = serde_json::from_value(options).unwrap();
        request_hash(&payload, &attributes, &options)
    }

    /// Redis has hashes of earlier releases, so a request must have the same one for ever.
    #[test]
    fn a_repeated_request_has_the_hash_of_an_earlier_release() {
        let growing = json!({
            "max_attempts": 4, "first": "1s", "factor": 1.5, "max": "1h", "jitter": 0.25,
        });
        let all = json!({
            "delay": "30m", "run_at": "2026-11-21T12:30:00Z", "key": "order-17", "if_exists": "replace",
            "retain": "1d", "idempotency_key": "abc", "durability": "fsync+replica:1", "lease": "90s",
            "max_attempts": 4, "retry": growing, "start_within": "PT5M", "max_deliveries": 3,
            "ttl": "6s",
        });
        assert_eq!(hash(json!({})), 16_713_000_076_435_232_201);
        assert_eq!(
            hash(json!({"retry": {"delays": ["2m", "10m"]}})),
            15_759_729_934_487_045_543
        );
        assert_eq!(
            hash(json!({"retry": {"every": "5s", "max": null}})),
            3_216_089_253_931_153_896
        );
        assert_eq!(hash(all), 1_528_228_052_151_622_233);
    }
}
