//! Messages of jobs.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use rskafka::chrono::{DateTime, Utc};
use rskafka::record::Record;
use tidegate::api::relay::KafkaConfig;

use super::super::{ATTRIBUTE_HEADER, ID_HEADER, TRACE_PARENT_HEADER};
use crate::job::RelayJob;

/// The bytes of one batch: a topic takes 1,048,588 (`max.message.bytes`) unless it is set otherwise. A larger job is
/// alone.
const BATCH_BYTES_MAX: usize = 900_000;
/// Lengths, times and the id of a message, and the length of each header.
const MESSAGE_OVERHEAD: usize = 80;
const HEADER_OVERHEAD: usize = 10;

/// The source of the key of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MessageKey {
    None,
    Id,
    Attribute(String),
}

impl MessageKey {
    pub(super) fn new(config: &KafkaConfig) -> Self {
        match config.key_attribute() {
            Some(name) => Self::Attribute(name.to_owned()),
            None if config.key.is_empty() => Self::None,
            None => Self::Id,
        }
    }

    /// The key of this job. None if it lacks the attribute.
    pub(super) fn of<'a>(&self, job: &'a RelayJob) -> Option<&'a str> {
        match self {
            Self::None => None,
            Self::Id => Some(&job.id),
            Self::Attribute(name) => job.attributes.get(name).map(String::as_str),
        }
    }
}

/// A job of a call, its position there, and its key in Kafka.
#[derive(Debug)]
pub(super) struct OutgoingMessage<'a> {
    pub(super) index: usize,
    pub(super) job: &'a RelayJob,
    pub(super) key: Option<&'a str>,
}

impl OutgoingMessage<'_> {
    /// About how many bytes the message has.
    fn size(&self) -> usize {
        let headers = self.job.attributes.iter();
        let headers = headers.map(|(name, value)| {
            ATTRIBUTE_HEADER.len() + name.len() + value.len() + HEADER_OVERHEAD
        });
        let span = self.job.trace_parent();
        let span = span.map_or(0, |span| {
            TRACE_PARENT_HEADER.len() + span.len() + HEADER_OVERHEAD
        });
        let key = self.key.map_or(0, str::len);
        let always = self.job.id.len() + self.job.content_type.len() + MESSAGE_OVERHEAD;
        self.job.payload.len() + key + always + span + headers.sum::<usize>()
    }
}

/// Splits jobs into batches, in order.
pub(super) fn batches<'a, 'b>(jobs: &'a [OutgoingMessage<'b>]) -> Vec<&'a [OutgoingMessage<'b>]> {
    let (mut batches, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (index, job) in jobs.iter().enumerate() {
        let size = job.size();
        if index > begin && bytes + size > BATCH_BYTES_MAX {
            batches.push(&jobs[begin..index]);
            (begin, bytes) = (index, 0);
        }
        bytes += size;
    }
    batches.push(&jobs[begin..]);
    batches
}

/// The message of a job, with the time at which it is sent.
pub(super) fn record(keyed: &OutgoingMessage<'_>) -> Record {
    let job = keyed.job;
    let mut headers = BTreeMap::from([
        (ID_HEADER.to_owned(), job.id.clone().into_bytes()),
        (
            "content-type".to_owned(),
            job.content_type.clone().into_bytes(),
        ),
    ]);
    if let Some(span) = job.trace_parent() {
        headers.insert(TRACE_PARENT_HEADER.to_owned(), span.into_bytes());
    }
    let attributes = job.attributes.iter().filter(|(name, _)| !name.is_empty());
    headers.extend(attributes.map(|(name, value)| {
        let header = format!("{ATTRIBUTE_HEADER}{name}");
        (header, value.clone().into_bytes())
    }));
    Record {
        key: keyed.key.map(|key| key.as_bytes().to_vec()),
        value: Some(job.payload.to_vec()),
        headers,
        timestamp: now(),
    }
}

fn now() -> DateTime<Utc> {
    #[expect(
        clippy::disallowed_methods,
        reason = "brokers compare it with their wall clocks"
    )]
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = now.map_or(0, |time| time.as_millis());
    DateTime::from_timestamp_millis(i64::try_from(ms).unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_is_a_header_and_counts() {
        let untraced_job = RelayJob::of_test("id");
        for (job, header) in RelayJob::of_test_with_traces() {
            let [traced, bare] = [&job, &untraced_job].map(|job| OutgoingMessage {
                index: 0,
                job,
                key: None,
            });
            let (record, untraced) = (record(&traced), record(&bare));
            let sent = record.headers.get(TRACE_PARENT_HEADER);
            assert_eq!(sent.cloned(), header.map(String::into_bytes));
            let overhead = sent.map_or(0, |_| HEADER_OVERHEAD);
            let grown = record.approximate_size() - untraced.approximate_size();
            assert_eq!(traced.size() - bare.size(), grown + overhead);
        }
    }
}
