//! The wire of lmstfy.

use std::borrow::Cow;
use std::io::Write;

use serde::Deserialize;

use super::parse::parse;
use super::request::RequestBuilder;
use crate::body::JobLabel;
use crate::clock;
use crate::error::LoadgenError;
use crate::job_tracker::{DeliveredJob, TTR_SECONDS};

const DAY_SECONDS: u32 = 86_400;

/// TTL of jobs: a day longer than their delay, and at least two days, so that nothing expires during a run.
const fn ttl_seconds(delay: u32) -> u32 {
    let later = delay.saturating_add(DAY_SECONDS);
    if later > 2 * DAY_SECONDS {
        later
    } else {
        2 * DAY_SECONDS
    }
}

/// Appends the head of a publish request with a body of `bytes` bytes. `path` is the path of a queue.
pub(super) fn write_publish_head(
    requests: &RequestBuilder,
    out: &mut Vec<u8>,
    path: impl std::fmt::Display,
    delay: u32,
    bytes: usize,
) {
    let ttl = ttl_seconds(delay);
    let rest = format_args!("{path}?delay={delay}&ttl={ttl}&tries=1");
    requests.write_head(out, "PUT", rest);
    // Writing to a vector cannot fail.
    let _ = write!(out, "Content-Length: {bytes}\r\n\r\n");
}

pub(super) fn consume(
    requests: &RequestBuilder,
    queue: &str,
    count: usize,
    timeout: u32,
) -> Vec<u8> {
    let mut request = Vec::new();
    let rest = format_args!("{queue}?ttr={TTR_SECONDS}&timeout={timeout}&count={count}");
    requests.write_without_body(&mut request, "GET", rest);
    request
}

#[derive(Deserialize)]
struct PublishAnswer<'a> {
    #[serde(borrow)]
    job_id: Cow<'a, str>,
}

#[derive(Deserialize)]
struct PublishBulkAnswer<'a> {
    #[serde(borrow)]
    job_ids: Vec<&'a str>,
}

#[derive(Deserialize)]
struct ConsumedJob<'a> {
    #[serde(borrow)]
    job_id: Cow<'a, str>,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

#[derive(Deserialize)]
struct SizeAnswer {
    size: u64,
}

pub(super) fn published(body: &[u8]) -> Result<Cow<'_, str>, LoadgenError> {
    parse::<PublishAnswer>("publish", body).map(|answer| answer.job_id)
}

pub(super) fn published_bulk(body: &[u8]) -> Result<(u64, Cow<'_, str>), LoadgenError> {
    let ids = parse::<PublishBulkAnswer>("bulk publish", body)?.job_ids;
    let first = ids.first().copied().unwrap_or_default();
    Ok((ids.len() as u64, first.into()))
}

pub(super) fn size(body: &[u8]) -> Result<u64, LoadgenError> {
    parse::<SizeAnswer>("size", body).map(|answer| answer.size)
}

pub(super) fn consumed(
    body: &[u8],
    received_us: u64,
    mut take: impl FnMut(Option<DeliveredJob>, &str),
) -> Result<(), LoadgenError> {
    let mut one = |job: &ConsumedJob| {
        let label = JobLabel::read(&job.data);
        let created = clock::created_ms(&job.job_id);
        let delivered = label.zip(created);
        let delivered =
            delivered.map(|(label, created)| DeliveredJob::new(label, created, received_us));
        take(delivered, &job.job_id);
    };
    if body.first() == Some(&b'[') {
        let jobs: Vec<ConsumedJob> = parse("consume", body)?;
        jobs.iter().for_each(one);
    } else {
        one(&parse::<ConsumedJob>("consume", body)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_live_longer_than_their_delay() {
        assert_eq!(ttl_seconds(0), 2 * DAY_SECONDS);
        assert_eq!(ttl_seconds(365 * DAY_SECONDS), 366 * DAY_SECONDS);
    }

    #[test]
    fn bulk_answers_have_a_number_and_a_first_id() {
        let answer = br#"{"msg":"published","job_ids":["A","B"]}"#;
        assert_eq!(published_bulk(answer).unwrap(), (2, "A".into()));
        assert!(published_bulk(b"{}").is_err());
    }
}
