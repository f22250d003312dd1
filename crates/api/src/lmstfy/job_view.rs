//! The JSON of a job.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use tidegate_core::{Attributes, Job, JobState, QueueKey};

use super::job_id::WireJobId;
use crate::http::json;

/// A job in an answer. Its fields are in alphabetical order, as lmstfy writes them.
#[derive(Serialize)]
pub(super) struct JobView<'a> {
    #[serde(serialize_with = "sorted_or_null")]
    attributes: &'a Attributes,
    #[serde(serialize_with = "base64_text")]
    data: &'a [u8],
    elapsed_ms: u64,
    job_id: WireJobId,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'static str>,
    namespace: &'a str,
    queue: &'a str,
    remain_tries: u16,
    ttl: u64,
}

impl<'a> JobView<'a> {
    /// Shows a job of `queue` at `now_ms` (ms since the Unix epoch), which `elapsed_ms` and `ttl` refer to. Attributes of
    /// the native API whose names begin with a colon are not shown.
    pub(super) fn new(queue: &'a QueueKey, job: &'a Job, now_ms: u64, remain_tries: u16) -> Self {
        Self {
            attributes: &job.attributes,
            data: &job.body,
            elapsed_ms: now_ms.saturating_sub(job.created_at_ms),
            job_id: WireJobId {
                id: job.id,
                versioned: job.mark,
            },
            msg: None,
            namespace: queue.namespace.as_str(),
            queue: queue.queue.as_str(),
            remain_tries,
            ttl: ttl_seconds(job, now_ms),
        }
    }

    /// About the length of its JSON in bytes, and rarely less.
    pub(super) fn json_bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| name.len() + value.len() + 6);
        let names = self.namespace.len() + self.queue.len();
        // The field names, the id and numbers of a usual length take 200 bytes.
        200 + names + attributes.sum::<usize>() + self.data.len().div_ceil(3) * 4
    }

    /// Its JSON.
    pub(super) fn json(&self) -> Vec<u8> {
        json::compact_sized(self, self.json_bytes())
    }

    /// Adds the message "new job" of a consume.
    pub(super) const fn with_new_job_message(mut self) -> Self {
        self.msg = Some("new job");
        self
    }
}

/// The remaining time to live, rounded to the nearest second. 0 means that the job does not expire, so the value of
/// other jobs is at least 1.
fn ttl_seconds(job: &Job, now_ms: u64) -> u64 {
    // Dead jobs do not expire.
    if job.expires_at_ms == 0 || job.state == JobState::Dead {
        return 0;
    }
    let left_ms = job.expires_at_ms.saturating_sub(now_ms);
    ((left_ms + 500) / 1000).max(1)
}

fn base64_text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn sorted_or_null<S: Serializer>(list: &Attributes, serializer: S) -> Result<S::Ok, S::Error> {
    let own = list.iter().filter(|(name, _)| !name.starts_with(':'));
    let sorted: BTreeMap<&str, &str> = own.map(|(k, v)| (k.as_str(), v.as_str())).collect();
    if sorted.is_empty() {
        return serializer.serialize_none();
    }
    serializer.collect_map(sorted)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidegate_core::JobId;

    use super::*;

    fn job() -> Job {
        Job {
            id: JobId::new(1000, 1, 2, 3),
            body: Bytes::from("a?>"),
            attributes: vec![],
            mark: false,
            extension: None,
            failures: None,
            cancel_requested: false,
            has_history: false,
            state: JobState::Leased,
            tries_left: 4,
            attempt: 1,
            created_at_ms: 1000,
            due_at_ms: 5000,
            run_at_ms: 5000,
            expires_at_ms: 0,
        }
    }

    fn shown(job: &Job) -> String {
        let queue = QueueKey::try_from("ns/q").unwrap();
        let text =
            json::compact(&JobView::new(&queue, job, 1250, job.tries_left).with_new_job_message());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_job_has_all_fields_in_alphabetical_order() {
        let id = job().id;
        let expected = format!(
            r#"{{"attributes":null,"data":"YT8+","elapsed_ms":250,"job_id":"{id}","msg":"new job","namespace":"ns","queue":"q","remain_tries":4,"ttl":0}}"#
        );
        assert_eq!(shown(&job()), expected);
        let attributes = vec![
            ("b".to_owned(), "2".to_owned()),
            (String::new(), "<".to_owned()),
        ];
        let versioned = Job {
            attributes,
            mark: true,
            extension: None,
            failures: None,
            cancel_requested: false,
            has_history: false,
            body: Bytes::new(),
            ..job()
        };
        let text = shown(&versioned);
        let begin = format!(
            r#"{{"attributes":{{"":"\u003c","b":"2"}},"data":"","elapsed_ms":250,"job_id":"1{id}","#
        );
        assert!(text.starts_with(&begin), "{text}");
    }

    #[test]
    fn the_expected_length_is_rarely_exceeded() {
        let queue = QueueKey::try_from("ns/q").unwrap();
        for bytes in [0, 1, 100, 4_000_000] {
            let attributes = vec![("name".to_owned(), "value".to_owned())];
            let body = Bytes::from(vec![b'x'; bytes]);
            let job = Job {
                body,
                attributes,
                ..job()
            };
            let view = JobView::new(&queue, &job, 1_763_700_000_123, 65_535).with_new_job_message();
            let length = json::compact(&view).len();
            let expected = view.json_bytes();
            assert!(
                (length..length + 100).contains(&expected),
                "{length}, {expected}"
            );
        }
    }

    #[test]
    fn ttl_is_rounded_and_never_0_for_a_job_that_expires() {
        let ttl = |left_ms: u64, state: JobState| {
            let expires_at_ms = 1000 + left_ms;
            ttl_seconds(
                &Job {
                    state,
                    expires_at_ms,
                    ..job()
                },
                1000,
            )
        };
        assert_eq!(ttl(10_000, JobState::Ready), 10);
        assert_eq!(ttl(9_500, JobState::Ready), 10);
        assert_eq!(ttl(9_499, JobState::Ready), 9);
        assert_eq!(ttl(100, JobState::Ready), 1);
        assert_eq!(ttl(10_000, JobState::Dead), 0);
    }
}
