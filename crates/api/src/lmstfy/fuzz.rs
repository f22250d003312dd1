//! The check of the fuzz target `request` (`fuzz/`), which ordinary tests run, too. Daemons do not have this module.

use std::collections::HashSet;
use std::str::from_utf8;

use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Request};
use bytes::Bytes;
use tidegate_core::Namespace;

use super::attributes::JobHeaders;
use super::job_id::WireJobId;
use super::publish_bulk::elements;
use super::publish_params::PublishParams;
use super::reserve::ConsumeParams;
use super::scope::{JOB_ID, NAMESPACE, QUEUE, check_queue_list, parse_queues, queue_key, segment};
use super::{respawn, routes};
use crate::config::SHIPPED;
use crate::http::query::Query;

/// Parses bytes as a request (`METHOD TARGET`, header lines, an empty line, a body), and reads everything that any
/// handler reads.
///
/// # Panics
/// If a value that was read differs from the written one, or cannot be stored.
pub fn request(bytes: &[u8]) {
    let Some((head, body)) = split(bytes) else {
        return;
    };
    let path = head.uri.path();
    let _ = routes::Template::of(path);
    names(path);
    parameters(
        &Query::new(head.uri.query().unwrap_or_default()),
        &head,
        &body,
    );
    jobs(&body);
}

/// Head and body, if the HTTP library accepts them.
fn split(bytes: &[u8]) -> Option<(Parts, Bytes)> {
    let end = bytes.windows(2).position(|two| two == b"\n\n");
    let (head, body) = bytes.split_at(end.unwrap_or(bytes.len()));
    let mut lines = head.split(|byte| *byte == b'\n');
    let (method, target) = from_utf8(lines.next()?).ok()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(target);
    for line in lines {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
        let name = HeaderName::from_bytes(name).ok()?;
        request = request.header(name, HeaderValue::from_bytes(&value[1..]).ok()?);
    }
    let (head, ()) = request.body(()).ok()?.into_parts();
    Some((
        head,
        Bytes::copy_from_slice(body.get(2..).unwrap_or_default()),
    ))
}

/// Names equal the names in the path, and their displayed form is read as the same names.
fn names(path: &str) {
    let limits = &SHIPPED.requests;
    if let Ok(key) = queue_key(path, limits) {
        assert_eq!(key.queue.as_str(), segment(path, QUEUE));
        assert_eq!(queue_key(&format!("/api/{key}"), limits), Ok(key));
    }
    let job = segment(path, JOB_ID);
    if let Ok(id) = job.parse::<WireJobId>() {
        assert_eq!(id.to_string(), job);
    }
    let list = segment(path, QUEUE);
    let namespace = Namespace::try_from(&*segment(path, NAMESPACE));
    if let (Ok(namespace), Ok(())) = (namespace, check_queue_list(&list)) {
        let queues = parse_queues(&namespace, &list);
        let mut once = HashSet::new();
        for key in &queues {
            assert!(list.split(',').any(|name| name == key.queue.as_str()));
            assert!(once.insert(&key.queue), "{list}: {key} twice");
        }
    }
}

/// Accepted parameters make valid jobs, claims and limits.
fn parameters(query: &Query<'_>, head: &Parts, body: &Bytes) {
    let limits = &SHIPPED.requests;
    if let (Ok(params), Ok(extras)) = (
        PublishParams::read(query, &SHIPPED.job),
        JobHeaders::read(&head.headers),
    ) {
        let job = params.job(body.clone(), &extras);
        assert_eq!(job.check(), Ok(()));
        assert_eq!(job.body, body);
    }
    if let Ok(params) = ConsumeParams::read(query, &SHIPPED.job, limits.consume_jobs_max) {
        assert!((1..=limits.consume_jobs_max).contains(&params.claim.count));
    }
    if let Ok(limit) = respawn::limit(query) {
        assert!(limit > 0);
    }
    if let Ok(ttl_ms) = respawn::ttl_ms(query, 0) {
        assert!(ttl_ms <= tidegate_core::limits::DURATION_MS_MAX);
    }
}

/// The elements of an array are its JSON texts, in its order.
fn jobs(body: &Bytes) {
    let Ok(elements) = elements(body, &SHIPPED.requests) else {
        return;
    };
    let array: Vec<serde_json::Value> = serde_json::from_slice(body).expect("an array");
    assert_eq!(elements.len(), array.len());
    for (element, value) in elements.iter().zip(array) {
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(element).ok(),
            Some(value)
        );
    }
}

#[cfg(test)]
#[path = "../../../../fuzz/corpora.rs"]
mod corpora;

#[cfg(test)]
mod tests {
    use super::corpora::check_corpus;

    /// Without a fuzzer: over its corpus, variations of it, and random bytes.
    #[test]
    fn the_checks_of_the_request_target_hold() {
        check_corpus("request", super::request);
    }
}
