//! The stored definition of a schedule: JSON with everything that a pump needs and that the API shows.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use tidegate_core::schedule::{
    CatchUp, CatchUpRule, InvalidSchedule, Overlap, ScheduleRule, TickTimes,
};
use tidegate_core::{
    GROUP_ATTRIBUTE, GroupHash, KeyHash, NativeOptions, NewJob, QueueKey, RecordExtension,
    RetryDelays, RetrySteps, SCHEDULE_KEY_PREFIX,
};

use crate::table::NamespacedName;

/// The attribute with the name of the schedule that has published a job.
pub const SCHEDULE_ATTRIBUTE: &str = "tidegate-schedule";
/// The attribute with the time of the tick, in ms since 1970.
const TICK_ATTRIBUTE: &str = "tidegate-tick-ms";

/// The key of the jobs of a schedule, unless they may overlap.
pub fn schedule_job_key(schedule: &NamespacedName) -> String {
    format!("{SCHEDULE_KEY_PREFIX}{}", schedule.name)
}

/// When the ticks are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleTimes {
    /// A cron pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The time between two ticks, in ms, if there is no pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// No tick is before this time, in ms since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at_ms: Option<u64>,
    /// No tick is after this time, in ms since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at_ms: Option<u64>,
    /// Whether there are no ticks.
    pub paused: bool,
}

impl ScheduleTimes {
    /// The rule of the ticks, pauses aside.
    ///
    /// # Errors
    /// The pattern, the time zone or the distance of two ticks is not valid.
    pub fn rule(&self) -> Result<ScheduleRule, InvalidSchedule> {
        let times = match &self.cron {
            Some(pattern) => TickTimes::cron(pattern, self.time_zone.as_deref().unwrap_or("UTC")),
            None => TickTimes::every(self.every_ms.unwrap_or_default()),
        };
        Ok(ScheduleRule {
            times: times?,
            starts_at_ms: self.starts_at_ms,
            ends_at_ms: self.ends_at_ms,
        })
    }

    /// The first tick after this time, in ms since 1970, if there is one.
    ///
    /// # Errors
    /// As for [`Self::rule`].
    pub fn next_after(&self, after_ms: u64) -> Result<Option<u64>, InvalidSchedule> {
        let rule = self.rule()?;
        Ok((!self.paused).then(|| rule.next_after(after_ms)).flatten())
    }
}

/// The bytes of a payload, as base64.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BodyText(Vec<u8>);

impl Serialize for BodyText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for BodyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = BASE64_STANDARD.decode(text);
        bytes.map(Self).map_err(serde::de::Error::custom)
    }
}

/// The job that a schedule publishes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduledJob {
    body: BodyText,
    attributes: Vec<(String, String)>,
    delay_ms: u64,
    ttl_ms: u64,
    lease_ms: Option<u32>,
    max_attempts: Option<u16>,
    retry_ms: Option<Vec<u64>>,
    /// The first delay, the factor and the longest delay, if delays grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_growing: Option<(u64, f64, u64)>,
    jitter_permille: Option<u16>,
    retain_ms: Option<u32>,
    #[serde(default, skip_serializing_if = "is_zero")]
    priority: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(priority: &u8) -> bool {
    *priority == 0
}

impl ScheduledJob {
    /// The content and options of a job of the native API. A due time, a key and a waiting client are not part of it.
    pub fn new(job: &NewJob) -> Self {
        let native = job.native.as_deref().cloned().unwrap_or_default();
        let options = native.extension;
        let (retry_ms, retry_growing) = match options.retry.as_ref().map(|retry| &retry.steps) {
            Some(RetrySteps::Listed(delays)) => (Some(delays.clone()), None),
            Some(RetrySteps::Growing {
                first_ms,
                factor,
                max_ms,
            }) => (None, Some((*first_ms, *factor, *max_ms))),
            None => (None, None),
        };
        Self {
            body: BodyText(job.body.to_vec()),
            attributes: job.attributes.clone(),
            delay_ms: job.delay_ms,
            ttl_ms: job.ttl_ms,
            lease_ms: options.lease_ms,
            max_attempts: options.max_attempts,
            retry_ms,
            retry_growing,
            jitter_permille: options.retry.map(|retry| retry.jitter_permille),
            retain_ms: options.retain_ms,
            priority: native.priority,
        }
    }

    fn at(&self, schedule: &NamespacedName, key: Option<KeyHash>, tick_ms: u64) -> NewJob {
        let mut attributes = self.attributes.clone();
        attributes.push((SCHEDULE_ATTRIBUTE.to_owned(), schedule.name.clone()));
        attributes.push((TICK_ATTRIBUTE.to_owned(), tick_ms.to_string()));
        let listed = self.retry_ms.clone().map(RetrySteps::Listed);
        let growing = self.retry_growing;
        let group = attributes.iter().find(|(name, _)| name == GROUP_ATTRIBUTE);
        let group = group.map(|(_, group)| GroupHash::of(group));
        let growing = growing.map(|(first_ms, factor, max_ms)| RetrySteps::Growing {
            first_ms,
            factor,
            max_ms,
        });
        let retry = listed.or(growing).map(|steps| RetryDelays {
            steps,
            jitter_permille: self.jitter_permille.unwrap_or_default(),
        });
        NewJob {
            body: self.body.0.clone().into(),
            attributes,
            delay_ms: self.delay_ms,
            ttl_ms: self.ttl_ms,
            tries: 0,
            mark: false,
            native: Some(Box::new(NativeOptions {
                extension: RecordExtension {
                    key_hash: key.map(|key| key.0),
                    group_hash: group,
                    lease_ms: self.lease_ms,
                    max_attempts: self.max_attempts,
                    retry,
                    retain_ms: self.retain_ms,
                },
                priority: self.priority,
                ..NativeOptions::default()
            })),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScheduleDefinition {
    /// The name of its queue.
    pub queue: String,
    /// Its ticks.
    pub times: ScheduleTimes,
    /// The rule if the job of an earlier tick is not done.
    pub overlap: Overlap,
    /// Which missed ticks are published: `one`, `none` or `all`.
    catch_up: CatchUp,
    /// No tick is published so long after its time, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    catch_up_window_ms: Option<u64>,
    pub job: ScheduledJob,
    /// The definition as the API shows it, as JSON that this crate does not read.
    pub shown: Box<RawValue>,
}

impl ScheduleDefinition {
    /// A definition.
    pub fn new(
        queue: &QueueKey,
        times: ScheduleTimes,
        overlap: Overlap,
        catch_up: CatchUpRule,
        job: &NewJob,
        shown: Box<RawValue>,
    ) -> Self {
        Self {
            queue: queue.queue.as_str().to_owned(),
            times,
            overlap,
            catch_up: catch_up.which,
            catch_up_window_ms: catch_up.window_ms,
            job: ScheduledJob::new(job),
            shown,
        }
    }

    /// Which missed ticks are published.
    pub fn catch_up(&self) -> CatchUpRule {
        CatchUpRule {
            which: self.catch_up,
            window_ms: self.catch_up_window_ms,
        }
    }

    /// The times that its ticks depend on, as text.
    pub(crate) fn rule_text(&self) -> String {
        serde_json::to_string(&self.times).unwrap_or_default()
    }

    /// The job of a tick.
    pub(crate) fn job_at(
        &self,
        schedule: &NamespacedName,
        queue: &QueueKey,
        tick_ms: u64,
    ) -> NewJob {
        let has_key = self.overlap != Overlap::Allow;
        let key = has_key.then(|| KeyHash::of_job(queue, &schedule_job_key(schedule)));
        self.job.at(schedule, key, tick_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Definitions of earlier releases are read, and written as they were.
    #[test]
    fn a_stored_definition_keeps_its_form() {
        for text in [
            r#"{"queue":"mails","times":{"cron":"0 9 * * *","time_zone":"Europe/Berlin","paused":false},"overlap":"keep","catch_up":"one","job":{"body":"e30=","attributes":[[":t","j"]],"delay_ms":0,"ttl_ms":5000,"lease_ms":30000,"max_attempts":4,"retry_ms":[1000,5000],"jitter_permille":100,"retain_ms":null},"shown":{"queue":"mails"}}"#,
            r#"{"queue":"mails","times":{"every_ms":900000,"starts_at_ms":1,"ends_at_ms":2,"paused":true},"overlap":"replace","catch_up":"all","catch_up_window_ms":60000,"job":{"body":"","attributes":[],"delay_ms":7,"ttl_ms":0,"lease_ms":null,"max_attempts":null,"retry_ms":null,"retry_growing":[1000,1.5,3600000],"jitter_permille":250,"retain_ms":86400000},"shown":{}}"#,
        ] {
            let definition: ScheduleDefinition = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&definition).unwrap(), text);
        }
    }

    #[test]
    fn the_stored_job_has_the_options_of_a_publish() {
        let retry = RetryDelays {
            steps: RetrySteps::Growing {
                first_ms: 1000,
                factor: 1.5,
                max_ms: 3_600_000,
            },
            jitter_permille: 250,
        };
        let extension = RecordExtension {
            lease_ms: Some(30_000),
            max_attempts: Some(4),
            retry: Some(retry),
            retain_ms: Some(1000),
            ..RecordExtension::default()
        };
        let job = NewJob {
            body: "{}".into(),
            attributes: vec![(":t".to_owned(), "j".to_owned())],
            delay_ms: 5,
            ttl_ms: 6,
            tries: 0,
            mark: false,
            native: Some(Box::new(NativeOptions {
                extension,
                ..NativeOptions::default()
            })),
        };
        assert_eq!(
            serde_json::to_string(&ScheduledJob::new(&job)).unwrap(),
            r#"{"body":"e30=","attributes":[[":t","j"]],"delay_ms":5,"ttl_ms":6,"lease_ms":30000,"max_attempts":4,"retry_ms":null,"retry_growing":[1000,1.5,3600000],"jitter_permille":250,"retain_ms":1000}"#
        );
    }
}
