//! The JSON of a job.
//!
//! It is most of the text that the API writes, so it is made piece by piece: through a serializer, which looks for
//! characters to escape in each name and text, it took a seventh of the instructions of a consume
//! (`docs/decisions/0071-cpu-of-the-api.md`).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tidegate_core::{Attributes, Job, JobState, QueueKey};

use super::job_id::{WIRE_JOB_ID_BYTES_MAX, WireJobId};
use crate::http::json;

/// A job in an answer. Its fields are in alphabetical order, as lmstfy writes them.
pub(super) struct JobView<'a> {
    attributes: &'a Attributes,
    data: &'a [u8],
    elapsed_ms: u64,
    job_id: WireJobId,
    msg: Option<&'static str>,
    queue: &'a QueueKey,
    remain_tries: u16,
    ttl: u64,
}

impl<'a> JobView<'a> {
    /// Shows a job of `queue` at `now_ms` (ms since the Unix epoch), which `elapsed_ms` and `ttl` refer to. Attributes
    /// of the native API whose names begin with a colon are not shown.
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
            queue,
            remain_tries,
            ttl: ttl_seconds(job, now_ms),
        }
    }

    /// About the length of its JSON in bytes, and rarely less.
    fn json_bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| name.len() + value.len() + 6);
        let names = self.queue.namespace.as_str().len() + self.queue.queue.as_str().len();
        // The field names, the id and numbers of a usual length take 200 bytes.
        200 + names + attributes.sum::<usize>() + base64_bytes(self.data)
    }

    pub(super) fn json(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.json_bytes());
        self.write(&mut text);
        text
    }

    /// The JSON array of several jobs.
    pub(super) fn json_list(jobs: &[Self]) -> Vec<u8> {
        let bytes = jobs.iter().map(|job| job.json_bytes() + 1).sum::<usize>();
        let mut text = Vec::with_capacity(bytes + 2);
        text.push(b'[');
        for (number, job) in jobs.iter().enumerate() {
            if number > 0 {
                text.push(b',');
            }
            job.write(&mut text);
        }
        text.push(b']');
        text
    }

    /// Adds the message "new job" of a consume.
    pub(super) const fn with_new_job_message(mut self) -> Self {
        self.msg = Some("new job");
        self
    }

    /// Adds the JSON to `text`. Names, ids, base64 and the message have no character that JSON escapes.
    fn write(&self, text: &mut Vec<u8>) {
        let mut id = [0; WIRE_JOB_ID_BYTES_MAX];
        let mut number = itoa::Buffer::new();
        text.extend_from_slice(br#"{"attributes":"#);
        match self.sorted_attributes() {
            sorted if sorted.is_empty() => text.extend_from_slice(b"null"),
            sorted => text.extend(json::compact(&sorted)),
        }
        text.extend_from_slice(br#","data":""#);
        add_base64(self.data, text);
        let mut add = |piece: &str| text.extend_from_slice(piece.as_bytes());
        add(r#"","elapsed_ms":"#);
        add(number.format(self.elapsed_ms));
        add(r#","job_id":""#);
        add(self.job_id.encode(&mut id));
        if let Some(msg) = self.msg {
            add(r#"","msg":""#);
            add(msg);
        }
        add(r#"","namespace":""#);
        add(self.queue.namespace.as_str());
        add(r#"","queue":""#);
        add(self.queue.queue.as_str());
        add(r#"","remain_tries":"#);
        add(number.format(self.remain_tries));
        add(r#","ttl":"#);
        add(number.format(self.ttl));
        add("}");
    }

    fn sorted_attributes(&self) -> BTreeMap<&str, &str> {
        let own = self.attributes.iter();
        let own = own.filter(|(name, _)| !name.starts_with(':'));
        own.map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }
}

const fn base64_bytes(data: &[u8]) -> usize {
    data.len().div_ceil(3) * 4
}

fn add_base64(data: &[u8], text: &mut Vec<u8>) {
    let at = text.len();
    text.resize(at + base64_bytes(data), 0);
    STANDARD
        .encode_slice(data, &mut text[at..])
        .expect("there is room for the text");
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use tidegate_core::JobId;

    use super::*;

    fn job() -> Job {
        Job {
            id: JobId::new(1000, 1, 2, 3),
            body: Bytes::from("a?>"),
            attributes: vec![],
            mark: false,
            extension: None,
            priority: 0,
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
        let view = JobView::new(&queue, job, 1250, job.tries_left).with_new_job_message();
        String::from_utf8(view.json()).unwrap()
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
    fn several_jobs_are_an_array() {
        let (queue, job) = (QueueKey::try_from("ns/q").unwrap(), job());
        let view = || JobView::new(&queue, &job, 1250, 3);
        let one = String::from_utf8(view().json()).unwrap();
        for (jobs, expected) in [
            (vec![], "[]".to_owned()),
            (vec![view()], format!("[{one}]")),
            (vec![view(), view()], format!("[{one},{one}]")),
        ] {
            assert_eq!(
                String::from_utf8(JobView::json_list(&jobs)).unwrap(),
                expected
            );
        }
    }

    proptest! {
        /// It is the text that a serializer writes.
        #[test]
        fn any_job_is_valid_json_in_its_shortest_form(
            attributes in prop::collection::vec((".{0,8}", ".{0,8}"), 0..4),
            body: Vec<u8>,
            mark: bool,
            tries: u16,
            created_at_ms in 0_u64..1 << 40,
            left_ms in 0_u64..1 << 40,
        ) {
            let now_ms = 1 << 39;
            let job = Job {
                attributes: attributes.clone(),
                body: body.clone().into(),
                mark,
                created_at_ms,
                expires_at_ms: now_ms + left_ms,
                ..job()
            };
            let queue = QueueKey::try_from("a-_Z/9_q").unwrap();
            let text = JobView::new(&queue, &job, now_ms, tries).json();
            let shown = attributes.into_iter().filter(|(name, _)| !name.starts_with(':'));
            let shown: serde_json::Map<_, _> = shown.map(|(name, value)| (name, value.into())).collect();
            let id = WireJobId { id: job.id, versioned: mark }.to_string();
            let expected = serde_json::json!({
                "attributes": (!shown.is_empty()).then_some(shown),
                "data": STANDARD.encode(&body),
                "elapsed_ms": now_ms.saturating_sub(created_at_ms),
                "job_id": id,
                "namespace": "a-_Z",
                "queue": "9_q",
                "remain_tries": tries,
                "ttl": ttl_seconds(&job, now_ms),
            });
            prop_assert_eq!(String::from_utf8(text), String::from_utf8(json::compact(&expected)));
        }
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
            let length = view.json().len();
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
