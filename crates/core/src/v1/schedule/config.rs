//! The definition of a schedule.

use serde::{Deserialize, Deserializer, Serialize};

use crate::QueueName;
use crate::limits::{
    ConfigurableLimits, SCHEDULE_ATTRIBUTES_BYTES_MAX, SCHEDULE_ATTRIBUTES_MAX,
    SCHEDULE_PAYLOAD_BYTES_MAX,
};
use crate::schedule::{CatchUp, Overlap};
use crate::v1::input::{CheckedRequest, embedding, object};
use crate::v1::problem::{InvalidRequest, ProblemCode};
use crate::v1::publish::{JobContent, JobOptions};
use crate::v1::values::{ContentType, DurationMs, JobAttributes, JobPayload, Timestamp};

/// Shortest `catch_up_window`, in ms.
const WINDOW_MS_MIN: u64 = 1000;

/// The job that a schedule publishes: payload, attributes and options as of a publish. Jobs also have the attributes
/// `tidegate-schedule` (the name of the schedule) and `tidegate-tick-ms` (the time of the tick, in ms since 1970).
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ScheduleJob {
    /// Its payload and attributes.
    #[serde(flatten)]
    pub content: JobContent,
    #[serde(flatten)]
    pub options: JobOptions,
}

impl<'de> Deserialize<'de> for ScheduleJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (content, options) = embedding(deserializer, Self::FIELDS)?;
        Ok(Self { content, options })
    }
}

impl ScheduleJob {
    /// The fields of the job in JSON.
    pub(crate) const FIELDS: &[&str] = &[
        "payload",
        "payload_base64",
        "content_type",
        "attributes",
        "delay",
        "priority",
        "group",
        "retain",
        "lease",
        "max_attempts",
        "retry",
        "start_within",
    ];

    /// A job with a payload, attributes and options.
    ///
    /// # Errors
    /// There is an option that the job of a schedule does not have, such as a key.
    pub fn new(
        payload: JobPayload,
        attributes: JobAttributes,
        options: JobOptions,
    ) -> Result<Self, InvalidRequest> {
        let set = serde_json::to_value(&options).unwrap_or_default();
        let mut names = set.as_object().into_iter().flat_map(|fields| fields.keys());
        if let Some(name) = names.find(|name| !Self::FIELDS.contains(&name.as_str())) {
            let detail = format!("the job of a schedule has no {name}");
            return Err(InvalidRequest::of_field(name, detail).inside("job"));
        }
        let mut content = JobContent::new(payload, attributes);
        let default = match content.payload {
            Some(_) => ContentType::JSON,
            None => ContentType::BYTES,
        };
        content.content_type = content.content_type.filter(|it| *it != default);
        Ok(Self { content, options })
    }

    fn check_attributes(&self) -> Result<(), InvalidRequest> {
        const FIELD: &str = "job.attributes";
        let attributes = &self.content.attributes;
        let mut names = attributes.0.keys();
        if let Some(name) = names.find(|it| it.starts_with("tidegate-")) {
            let detail = format!("the attribute {name:?} is set by the schedule; use another name");
            return Err(InvalidRequest::of_field(FIELD, detail));
        }
        // A client must be able to publish each job: a relay publishes it to another server.
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
}

/// A schedule: a job is published to a queue at each tick, at the times of a cron pattern or at a fixed distance.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The queue of the jobs. It cannot be changed: delete the schedule, and set it again.
    pub queue: QueueName,
    /// A cron pattern of five fields, such as `0 9 * * MON-FRI`, or of six that begin with the seconds. Excludes
    /// `every`.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 255))]
    pub cron: Option<String>,
    /// The time zone of the pattern, such as `Europe/Berlin`. By default `UTC`.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 64))]
    pub time_zone: Option<String>,
    /// The time between two ticks, at least 100 ms. They are at multiples of it since `starts_at`, or since 1970.
    /// Excludes `cron`.
    pub every: Option<DurationMs>,
    /// The job.
    #[serde(deserialize_with = "object")]
    pub job: ScheduleJob,
    /// The rule if the job of an earlier tick is not done. With `keep` and `replace` the key of the job is `schedule:`
    /// and the name of the schedule.
    #[serde(default)]
    pub overlap: Overlap,
    /// Which missed ticks are published.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// No tick is published later than so long after its time, at least 1 s. By default there is no limit.
    pub catch_up_window: Option<DurationMs>,
    /// No tick is before this time.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
    pub starts_at: Option<Timestamp>,
    /// No tick is after this time.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::answer::RequestTimestamp>))]
    pub ends_at: Option<Timestamp>,
    /// Whether the schedule has no ticks. Ticks of a pause are not caught up.
    #[serde(default)]
    pub paused: bool,
}

impl Schedule {
    /// A schedule of this job without times: set `cron` or `every`. Everything else has its default.
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
        let bytes = self.job.content.check_payload();
        let bytes = bytes.map_err(|invalid| invalid.inside("job"))?;
        if bytes > SCHEDULE_PAYLOAD_BYTES_MAX {
            let detail = format!(
                "the payload of a schedule has at most {SCHEDULE_PAYLOAD_BYTES_MAX} bytes; store it elsewhere"
            );
            return Err(InvalidRequest::new(ProblemCode::PayloadTooLarge, detail).at("job.payload"));
        }
        let options = self.job.options.check(limits);
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
