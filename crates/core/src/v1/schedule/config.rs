//! What a schedule does.

use serde::{Deserialize, Serialize};

use crate::QueueName;
use crate::limits::{
    ConfigurableLimits, SCHEDULE_ATTRIBUTES_BYTES_MAX, SCHEDULE_ATTRIBUTES_MAX,
    SCHEDULE_PAYLOAD_BYTES_MAX,
};
use crate::schedule::{CatchUp, Overlap};
use crate::v1::input::{CheckedRequest, object};
use crate::v1::problem::{InvalidRequest, ProblemCode};
use crate::v1::publish::{BatchItem, JobOptions};
use crate::v1::retry::{RetryChange, retry_of_job};
use crate::v1::values::{
    Base64Bytes, ContentType, DurationMs, JobAttributes, JobPayload, JsonText, MaxAttempts,
    Timestamp, even_null,
};

/// Shortest `catch_up_window`, in ms.
const WINDOW_MS_MIN: u64 = 1000;

/// The job that a schedule publishes: payload, attributes and options as of a publish. Jobs also have the attributes
/// `tidegate-schedule` (the name of the schedule) and `tidegate-tick-ms` (the time of the tick, in ms since 1970).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ScheduleJob {
    /// The payload, if it is JSON. Excludes `payload_base64`. At most 16 KiB.
    #[serde(
        default,
        deserialize_with = "even_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = JsonText, required = false))]
    pub payload: Option<JsonText>,
    /// The payload as base64. Excludes `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64Bytes>,
    /// By default `application/json` for `payload`, else `application/octet-stream`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<ContentType>,
    /// Names and values that travel with the job. At most 30: the schedule adds two.
    #[serde(default, skip_serializing_if = "JobAttributes::is_empty")]
    pub attributes: JobAttributes,
    /// How long the job is delayed after the tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationMs>,
    /// How long the finished job stays. By default as in the policy of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain: Option<DurationMs>,
    /// How long a worker may hold the job without extending its lease, unless the reserve call says something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<DurationMs>,
    /// After how many failed attempts the job is dead. Excludes `retry.max_attempts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<MaxAttempts>,
    /// When failed attempts are repeated.
    #[serde(
        default,
        deserialize_with = "retry_of_job",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry: Option<RetryChange>,
    /// The job is dropped if no worker has started it so long after it was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within: Option<DurationMs>,
}

impl ScheduleJob {
    /// A job with a payload, attributes and options.
    ///
    /// # Errors
    /// There is an option that the job of a schedule does not have, such as a key.
    pub fn new(
        payload: JobPayload,
        attributes: JobAttributes,
        options: JobOptions,
    ) -> Result<Self, InvalidRequest> {
        let JobOptions {
            delay,
            run_at,
            key,
            if_exists,
            retain,
            idempotency_key,
            durability,
            lease,
            max_attempts,
            retry,
            start_within,
            max_deliveries,
            ttl,
            wait,
        } = options;
        let others = [
            ("run_at", run_at.is_some()),
            ("key", key.is_some()),
            ("if_exists", if_exists.is_some()),
            ("idempotency_key", idempotency_key.is_some()),
            ("durability", durability.is_some()),
            ("max_deliveries", max_deliveries.is_some()),
            ("ttl", ttl.is_some()),
            ("wait", wait.is_some()),
        ];
        if let Some((name, _)) = others.into_iter().find(|(_, is_set)| *is_set) {
            let detail = format!("the job of a schedule has no {name}");
            return Err(InvalidRequest::of_field(name, detail).inside("job"));
        }
        let content_type = payload.content_type.clone();
        let (payload, payload_base64) = payload.into_fields();
        let default = match payload {
            Some(_) => ContentType::JSON,
            None => ContentType::BYTES,
        };
        Ok(Self {
            payload,
            payload_base64,
            content_type: (content_type != default).then_some(content_type),
            attributes,
            delay,
            retain,
            lease,
            max_attempts,
            retry,
            start_within,
        })
    }

    /// The payload, attributes and options of the job.
    ///
    /// # Errors
    /// Those of [`JobPayload::from_fields`]. None if the schedule has been checked.
    pub fn into_parts(self) -> Result<(JobPayload, JobAttributes, JobOptions), InvalidRequest> {
        self.into_item().into_parts()
    }

    fn check_attributes(&self) -> Result<(), InvalidRequest> {
        const FIELD: &str = "job.attributes";
        let attributes = &self.attributes;
        let mut names = attributes.0.keys();
        if let Some(name) = names.find(|it| it.starts_with("tidegate-")) {
            let detail = format!("the attribute {name:?} is set by the schedule; use another name");
            return Err(InvalidRequest::of_field(FIELD, detail));
        }
        // Each job must be one that a client can publish: a relay publishes it to another server.
        let count = attributes.0.len();
        if count > SCHEDULE_ATTRIBUTES_MAX {
            let detail = format!(
                "{count} attributes; the job of a schedule has at most {SCHEDULE_ATTRIBUTES_MAX}, since the schedule adds two"
            );
            return Err(InvalidRequest::of_field(FIELD, detail));
        }
        let checked = attributes.check();
        let checked = checked.and_then(|()| attributes.check_bytes(SCHEDULE_ATTRIBUTES_BYTES_MAX));
        checked.map_err(|invalid| InvalidRequest::from(invalid).at(FIELD))
    }

    fn into_item(self) -> BatchItem {
        BatchItem {
            payload: self.payload,
            payload_base64: self.payload_base64,
            content_type: self.content_type,
            attributes: self.attributes,
            delay: self.delay,
            retain: self.retain,
            lease: self.lease,
            max_attempts: self.max_attempts,
            retry: self.retry,
            start_within: self.start_within,
            ..BatchItem::default()
        }
    }
}

/// A schedule: a job is published to a queue at each tick, at the times of a cron pattern or at a fixed distance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The queue of the jobs. It cannot be changed: delete the schedule, and set it again.
    pub queue: QueueName,
    /// A cron pattern of five fields, such as `0 9 * * MON-FRI`, or of six that begin with the seconds. Excludes `every`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 255))]
    pub cron: Option<String>,
    /// The time zone of the pattern, such as `Europe/Berlin`. By default `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 64))]
    pub time_zone: Option<String>,
    /// The time between two ticks, at least 100 ms. They are at multiples of it since `starts_at`, or since 1970. Excludes `cron`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<DurationMs>,
    /// The job.
    #[serde(deserialize_with = "object")]
    pub job: ScheduleJob,
    /// What happens if the job of an earlier tick is not done. With `keep` and `replace` the key of the job is `schedule:` and
    /// the name of the schedule.
    #[serde(default)]
    pub overlap: Overlap,
    /// Which missed ticks are published.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// No tick is published later than so long after its time, at least 1 s. By default there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up_window: Option<DurationMs>,
    /// No tick is before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// No tick is after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    /// Whether there are no ticks. Those of a pause are not caught up.
    #[serde(default)]
    pub paused: bool,
}

impl Schedule {
    /// A schedule of this job without times: set `cron` or `every`. Everything else has its default.
    #[must_use]
    pub const fn new(queue: QueueName, job: ScheduleJob) -> Self {
        Self {
            queue,
            cron: None,
            time_zone: None,
            every: None,
            job,
            overlap: Overlap::Keep,
            catch_up: CatchUp::One,
            catch_up_window: None,
            starts_at: None,
            ends_at: None,
            paused: false,
        }
    }
}

impl CheckedRequest for Schedule {
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        match (&self.cron, self.every) {
            (Some(_), Some(_)) => return Err(InvalidRequest::of_both("every", "cron")),
            (None, None) => {
                let detail =
                    "a schedule needs cron, such as \"0 9 * * MON-FRI\", or every, such as \"15m\"";
                return Err(InvalidRequest::of_field("cron", detail));
            }
            (None, Some(_)) if self.time_zone.is_some() => {
                let detail = "time_zone needs cron: ticks of every do not depend on a wall clock";
                return Err(InvalidRequest::of_field("time_zone", detail));
            }
            _ => {}
        }
        if matches!((self.starts_at, self.ends_at), (Some(starts), Some(ends)) if ends < starts) {
            let detail = "ends_at must not be before starts_at";
            return Err(InvalidRequest::of_field("ends_at", detail));
        }
        if let Some(window) = self
            .catch_up_window
            .filter(|window| window.as_ms() < WINDOW_MS_MIN)
        {
            let detail = format!(
                "the window is {} ms, and should be at least {WINDOW_MS_MIN} ms: otherwise ticks are left out when a pump is busy for a moment",
                window.as_ms()
            );
            return Err(InvalidRequest::of_field("catch_up_window", detail));
        }
        self.job.check_attributes()?;
        let item = self.job.clone().into_item();
        let bytes = JobPayload::check_fields(
            item.payload.as_ref(),
            item.payload_base64.as_ref(),
            item.content_type.as_ref(),
        );
        let bytes = bytes.map_err(|invalid| invalid.inside("job"))?;
        if bytes > SCHEDULE_PAYLOAD_BYTES_MAX {
            let detail = format!(
                "the payload of a schedule has at most {SCHEDULE_PAYLOAD_BYTES_MAX} bytes; store it elsewhere"
            );
            return Err(InvalidRequest::new(ProblemCode::PayloadTooLarge, detail).at("job.payload"));
        }
        let options = item.options().check(limits);
        options.map_err(|invalid| invalid.inside("job"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(change: &Value) -> Result<(), InvalidRequest> {
        let mut config = json!({"queue": "mails", "cron": "0 9 * * *", "job": {"payload": 1}});
        for (name, value) in change.as_object().unwrap() {
            config[name] = value.clone();
        }
        let text = config.to_string();
        let read = crate::v1::input::read_body::<Schedule>(
            text.as_bytes(),
            &ConfigurableLimits::default(),
        );
        read.map(drop)
    }

    #[test]
    fn what_excludes_each_other_is_refused_and_the_field_is_named() {
        assert_eq!(check(&json!({})), Ok(()));
        assert_eq!(check(&json!({"cron": null, "every": "15m"})), Ok(()));
        for (change, field) in [
            (json!({"every": "15m"}), "every"),
            (json!({"cron": null}), "cron"),
            (
                json!({"cron": null, "every": "15m", "time_zone": "UTC"}),
                "time_zone",
            ),
            (
                json!({"starts_at": "2026-01-02T00:00:00Z", "ends_at": "2026-01-01T00:00:00Z"}),
                "ends_at",
            ),
            (json!({"job": {}}), "job.payload"),
            (
                json!({"job": {"payload": 1, "attributes": {"tidegate-x": ""}}}),
                "job.attributes",
            ),
            (
                json!({"job": {"payload": "a".repeat(20_000)}}),
                "job.payload",
            ),
            (json!({"job": {"payload": 1, "lease": "1ms"}}), "job.lease"),
            (json!({"job": {"payload": 1, "key": "k"}}), "job.key"),
            (json!({"overlap": "skip"}), "overlap"),
            (json!({"every": "soon"}), "every"),
        ] {
            let refused = check(&change).unwrap_err();
            assert_eq!(
                refused.field.as_deref(),
                Some(field),
                "{change} {refused:?}"
            );
        }
    }

    #[test]
    fn two_attributes_are_left_for_those_of_the_schedule() {
        let job = |count: usize| {
            let names = (0..count).map(|number| format!("n{number}"));
            let attributes = JobAttributes(names.map(|it| (it, String::new())).collect());
            json!({"job": {"payload": 1, "attributes": attributes}})
        };
        assert_eq!(check(&job(30)), Ok(()));
        let refused = check(&job(31)).unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("job.attributes"));
        let detail =
            "31 attributes; the job of a schedule has at most 30, since the schedule adds two";
        assert_eq!(refused.detail, detail);
    }

    #[test]
    fn the_attributes_of_a_schedule_leave_room_for_those_that_it_adds() {
        let job = |last: usize| {
            let names = (0..7).map(|number| (format!("n{number}"), "v".repeat(1024)));
            let names = names.chain([("last".to_owned(), "v".repeat(last))]);
            let attributes = JobAttributes(names.collect());
            json!({"job": {"payload": 1, "attributes": attributes}})
        };
        let of_seven = 7 * ("job-attr-n0: \r\n".len() + 1024);
        let room = SCHEDULE_ATTRIBUTES_BYTES_MAX - of_seven - "job-attr-last: \r\n".len();
        assert_eq!(check(&job(room)), Ok(()));
        let refused = check(&job(room + 1)).unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("job.attributes"));
    }
}
