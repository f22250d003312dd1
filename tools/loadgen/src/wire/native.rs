//! The native wire, `/v1`.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::parse::parse;
use super::request::RequestBuilder;
use crate::body::JobLabel;
use crate::clock;
use crate::error::LoadgenError;
use crate::job_tracker::{DeliveredJob, TTR_SECONDS};

/// Outcome of an ack.
pub(crate) const DONE: &str = "done";

/// Appends a request with a body of JSON.
pub(crate) fn write_call(
    requests: &RequestBuilder,
    out: &mut Vec<u8>,
    rest: impl Display,
    body: &[u8],
) {
    write_body(requests, out, "POST", rest, body);
}

/// The same with another method.
pub(crate) fn write_body(
    requests: &RequestBuilder,
    out: &mut Vec<u8>,
    method: &str,
    rest: impl Display,
    body: &[u8],
) {
    requests.write_head(out, method, rest);
    write_json_headers(out, body.len());
    out.extend_from_slice(body);
}

/// Appends the headers of a body of JSON, and the line that ends them.
pub(super) fn write_json_headers(out: &mut Vec<u8>, bytes: usize) {
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "Content-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n"
    );
}

/// A request that reserves up to `count` jobs under leases of an hour.
pub(crate) fn reserve(
    requests: &RequestBuilder,
    queue: &str,
    count: usize,
    timeout: u32,
) -> Vec<u8> {
    reserve_with_lease(requests, queue, count, timeout, TTR_SECONDS)
}

/// A request that reserves up to `count` jobs under leases of `lease` seconds.
pub(crate) fn reserve_with_lease(
    requests: &RequestBuilder,
    queue: &str,
    count: usize,
    timeout: u32,
    lease: u32,
) -> Vec<u8> {
    let body = format!(
        r#"{{"queues":["{queue}"],"max_jobs":{count},"wait":"{timeout}s","lease":"{lease}s"}}"#
    );
    let mut request = Vec::new();
    write_call(requests, &mut request, "reserve", body.as_bytes());
    request
}

/// A request that says the same about several leases: `ack`, `touch`.
pub(crate) fn settle(
    requests: &RequestBuilder,
    verb: &str,
    leases: &[impl AsRef<str>],
    options: &str,
) -> Vec<u8> {
    let mut body = b"{\"leases\":[".to_vec();
    for (index, lease) in leases.iter().enumerate() {
        let separator = if index > 0 { "," } else { "" };
        // Writing to a vector cannot fail.
        let _ = write!(body, "{separator}\"{}\"", lease.as_ref());
    }
    let _ = write!(body, "]{options}}}");
    let mut request = Vec::new();
    write_call(requests, &mut request, verb, &body);
    request
}

/// A job after it was published.
#[derive(Deserialize)]
struct PublishedId<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

#[derive(Deserialize)]
struct PublishedBatch<'a> {
    #[serde(borrow)]
    results: Vec<PublishedId<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ReservedView<'a> {
    pub(crate) id: &'a str,
    pub(crate) lease: &'a str,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

impl ReservedView<'_> {
    /// The payload, if it is JSON.
    pub(crate) fn payload(&self) -> Option<&str> {
        self.payload.map(RawValue::get)
    }

    /// The label of the job; `None` if this program did not publish it.
    pub(crate) fn label(&self) -> Option<JobLabel> {
        JobLabel::parse(self.payload?.get().as_bytes())
    }
}

#[derive(Deserialize)]
struct ReservedViews<'a> {
    #[serde(borrow)]
    jobs: Vec<ReservedView<'a>>,
}

/// The result of settling one lease.
#[derive(Debug, Deserialize)]
pub(crate) struct SettledItem<'a> {
    pub(crate) outcome: &'a str,
}

#[derive(Deserialize)]
struct SettledLeases<'a> {
    #[serde(borrow)]
    results: Vec<SettledItem<'a>>,
}

#[derive(Deserialize)]
struct QueueAnswer {
    jobs: ReadyCount,
}

#[derive(Deserialize)]
struct ReadyCount {
    ready: u64,
}

/// Parses the answer to a publish: the id of the job.
pub(super) fn published(body: &[u8]) -> Result<Cow<'_, str>, LoadgenError> {
    parse::<PublishedId>("publish", body).map(|job| job.id)
}

/// Parses the answer to a batch. A job that was refused makes it unexpected.
pub(super) fn published_batch(body: &[u8]) -> Result<(u64, Cow<'_, str>), LoadgenError> {
    let published = parse::<PublishedBatch>("batch publish", body)?.results;
    let count = published.len() as u64;
    let first = published.into_iter().next().map(|job| job.id);
    Ok((count, first.unwrap_or_default()))
}

pub(super) fn size(body: &[u8]) -> Result<u64, LoadgenError> {
    parse::<QueueAnswer>("size", body).map(|answer| answer.jobs.ready)
}

/// Parses the answer to a reserve.
pub(crate) fn reserved(body: &[u8]) -> Result<Vec<ReservedView<'_>>, LoadgenError> {
    parse::<ReservedViews>("reserve", body).map(|answer| answer.jobs)
}

pub(super) fn consumed(
    body: &[u8],
    received_us: u64,
    mut take: impl FnMut(Option<DeliveredJob>, &str),
) -> Result<(), LoadgenError> {
    for job in reserved(body)? {
        let delivered = job.label().zip(clock::created_ms(job.id));
        let delivered =
            delivered.map(|(label, created)| DeliveredJob::new(label, created, received_us));
        take(delivered, job.lease);
    }
    Ok(())
}

/// Parses the answer to `ack` or `touch`.
pub(crate) fn outcomes<'a>(
    verb: &str,
    status: u16,
    body: &'a [u8],
) -> Result<Vec<SettledItem<'a>>, LoadgenError> {
    if status != 200 {
        return Err(LoadgenError::unexpected(verb, status, body));
    }
    parse::<SettledLeases>(verb, body).map(|answer| answer.results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_job_has_its_label() {
        let label = JobLabel {
            run: 1,
            number: 2,
            delay: 3,
        };
        let mut payload = Vec::new();
        label.write(&mut payload, 40);
        let payload = String::from_utf8(payload).unwrap();
        let id = tidegate_core::JobId::new(5, 0, 1_000_001, 0);
        let of = |payload: &str| {
            format!(
                r#"{{"now":"2026","jobs":[{{"id":"{id}","queue":"q","lease":"L","attempt":1,"failures":0{payload}}}]}}"#
            )
        };
        let consumed = |body: &str| {
            let mut jobs = Vec::new();
            let take = |job: Option<DeliveredJob>, lease: &str| {
                jobs.push((job.map(|job| (job.label, job.due_us())), lease.to_owned()));
            };
            super::consumed(body.as_bytes(), 9, take).unwrap();
            jobs
        };
        let ours = consumed(&of(&format!(r#","payload":{payload}"#)));
        assert_eq!(ours, [(Some((label, 3_005_000)), "L".to_owned())]);
        for other in ["", r#","payload":{"a":1}"#, r#","payload_base64":"YQ==""#] {
            assert_eq!(consumed(&of(other)), [(None, "L".to_owned())]);
        }
    }

    #[test]
    fn a_batch_with_a_problem_is_unexpected() {
        let good = br#"{"results":[{"id":"A","outcome":"created"},{"id":"B"}]}"#;
        assert_eq!(published_batch(good).unwrap(), (2, "A".into()));
        let bad = br#"{"results":[{"problem":{"code":"queue_full"}}]}"#;
        let said = published_batch(bad).unwrap_err().to_string();
        assert!(said.contains("queue_full"), "{said}");
    }

    #[test]
    fn outcomes_are_in_order() {
        let body = br#"{"results":[{"outcome":"extended"},{"outcome":"lost"}]}"#;
        let read = outcomes("touch", 200, body).unwrap();
        assert_eq!((read[0].outcome, read[1].outcome), ("extended", "lost"));
        assert!(outcomes("touch", 503, body).is_err());
    }
}
