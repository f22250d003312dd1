//! Publish requests of one job or of several.

use std::io::Write;

use tidegate_core::limits::PRIORITY_MAX;

use super::protocol::Wire;
use super::request::RequestBuilder;
use super::{lmstfy, native};
use crate::body::{BODY_BYTES_MIN, JobLabel};

/// The option that jobs of the native wire are published with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum JobOption {
    /// None of these.
    #[default]
    None,
    /// A key, which no other job of the run has.
    Key,
    /// An idempotency key, which no other request of the run has.
    IdempotencyKey,
    /// A priority: all five in turn.
    Priority,
    /// One of so many groups, in turn.
    Group(u64),
}

/// The priority of the job with this number.
const fn priority_of(number: u64) -> u64 {
    number % (PRIORITY_MAX as u64 + 1)
}

/// Writes publish requests into one reused buffer. On the wire of lmstfy keys are left out.
#[derive(Debug)]
pub(crate) struct PublishRequest {
    requests: RequestBuilder,
    body_bytes: usize,
    option: JobOption,
    bytes: Vec<u8>,
    body: Vec<u8>,
}

impl PublishRequest {
    pub(crate) fn new(requests: RequestBuilder, body_bytes: usize) -> Self {
        Self::with_option(requests, body_bytes, JobOption::None)
    }

    pub(crate) fn with_option(
        requests: RequestBuilder,
        body_bytes: usize,
        option: JobOption,
    ) -> Self {
        Self {
            requests,
            body_bytes: body_bytes.max(BODY_BYTES_MIN),
            option,
            bytes: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Returns a publish request of one job.
    pub(crate) fn one(&mut self, queue: &str, label: JobLabel) -> &[u8] {
        self.bytes.clear();
        let Self {
            requests, bytes, ..
        } = self;
        match requests.wire {
            Wire::Lmstfy => {
                lmstfy::write_publish_head(requests, bytes, queue, label.delay, self.body_bytes);
            }
            Wire::Native => {
                let JobLabel { number, delay, .. } = label;
                let path = format_args!("queues/{queue}/jobs");
                match (self.option, delay) {
                    (JobOption::Key, _) => {
                        let rest = format_args!("{path}?key=order-{number}&delay={delay}s");
                        requests.write_head(bytes, "POST", rest);
                    }
                    (JobOption::Priority, _) => {
                        let priority = priority_of(number);
                        let rest = format_args!("{path}?priority={priority}&delay={delay}s");
                        requests.write_head(bytes, "POST", rest);
                    }
                    (JobOption::Group(groups), _) => {
                        let group = number % groups;
                        let rest = format_args!("{path}?group=tenant-{group}&delay={delay}s");
                        requests.write_head(bytes, "POST", rest);
                    }
                    (_, 0) => requests.write_head(bytes, "POST", path),
                    _ => requests.write_head(bytes, "POST", format_args!("{path}?delay={delay}s")),
                }
                if self.option == JobOption::IdempotencyKey {
                    // Writing to a vector cannot fail.
                    let _ = write!(bytes, "Idempotency-Key: request-{number}\r\n");
                }
                native::write_json_headers(bytes, self.body_bytes);
            }
        }
        label.write(&mut self.bytes, self.body_bytes);
        &self.bytes
    }

    /// Returns a publish request of several jobs. On the wire of lmstfy all of them have the delay of the first.
    pub(crate) fn bulk(&mut self, queue: &str, labels: impl Iterator<Item = JobLabel>) -> &[u8] {
        self.bytes.clear();
        self.body.clear();
        match self.requests.wire {
            Wire::Lmstfy => self.lmstfy_bulk(queue, labels),
            Wire::Native => self.native_batch(queue, labels),
        }
        &self.bytes
    }

    fn lmstfy_bulk(&mut self, queue: &str, labels: impl Iterator<Item = JobLabel>) {
        let mut delay = 0;
        self.body.push(b'[');
        for label in labels {
            delay = label.delay;
            if self.body.len() > 1 {
                self.body.push(b',');
            }
            label.write(&mut self.body, self.body_bytes);
        }
        self.body.push(b']');
        let path = format_args!("{queue}/bulk");
        let bytes = self.body.len();
        lmstfy::write_publish_head(&self.requests, &mut self.bytes, path, delay, bytes);
        self.bytes.extend_from_slice(&self.body);
    }

    fn native_batch(&mut self, queue: &str, labels: impl Iterator<Item = JobLabel>) {
        let body = &mut self.body;
        body.extend_from_slice(b"{\"jobs\":[");
        let begin = body.len();
        for label in labels {
            if body.len() > begin {
                body.push(b',');
            }
            body.extend_from_slice(b"{\"payload\":");
            label.write(body, self.body_bytes);
            let JobLabel { number, delay, .. } = label;
            // Writing to a vector cannot fail.
            if delay > 0 {
                let _ = write!(body, ",\"delay\":\"{delay}s\"");
            }
            let _ = match self.option {
                JobOption::None => Ok(()),
                JobOption::Key => write!(body, ",\"key\":\"order-{number}\""),
                JobOption::IdempotencyKey => {
                    write!(body, ",\"idempotency_key\":\"request-{number}\"")
                }
                JobOption::Priority => write!(body, ",\"priority\":{}", priority_of(number)),
                JobOption::Group(groups) => {
                    write!(body, ",\"group\":\"tenant-{}\"", number % groups)
                }
            };
            body.push(b'}');
        }
        body.extend_from_slice(b"]}");
        let rest = format_args!("queues/{queue}/jobs/batch");
        native::write_call(&self.requests, &mut self.bytes, rest, &self.body);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn builder(wire: Wire) -> RequestBuilder {
        RequestBuilder {
            wire,
            prefix: "/p/".to_owned(),
            headers: " HTTP/1.1\r\nHost: h\r\n".to_owned(),
        }
    }

    fn label(number: u64, delay: u32) -> JobLabel {
        JobLabel {
            run: 0,
            number,
            delay,
        }
    }

    fn head_and_body(request: &[u8]) -> (String, Vec<u8>) {
        let text = String::from_utf8(request.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        (head.to_owned(), body.as_bytes().to_vec())
    }

    #[test]
    fn keys_are_in_native_requests_only() {
        for (option, inside) in [
            (JobOption::None, "jobs?delay=3s HTTP"),
            (JobOption::Key, "jobs?key=order-7&delay=3s HTTP"),
            (
                JobOption::IdempotencyKey,
                "\r\nIdempotency-Key: request-7\r\n",
            ),
        ] {
            let mut request = PublishRequest::with_option(builder(Wire::Native), 40, option);
            let (head, body) = head_and_body(request.one("q", label(7, 3)));
            assert!(
                head.starts_with("POST /p/queues/q/jobs?") && head.contains(inside),
                "{head}"
            );
            assert_eq!(JobLabel::parse(&body), Some(label(7, 3)));
            let mut request = PublishRequest::with_option(builder(Wire::Lmstfy), 40, option);
            let (head, _) = head_and_body(request.one("q", label(7, 3)));
            assert!(
                head.starts_with("PUT /p/q?delay=3&ttl=172800&tries=1 HTTP"),
                "{head}"
            );
        }
    }

    #[test]
    fn native_batches_have_a_delay_for_each_job() {
        let mut request = PublishRequest::with_option(builder(Wire::Native), 30, JobOption::Key);
        let (_, body) = head_and_body(request.bulk("q", [label(1, 0), label(2, 9)].into_iter()));
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["jobs"][0]["delay"], json!(null));
        assert_eq!(body["jobs"][0]["key"], "order-1");
        assert_eq!(body["jobs"][1]["delay"], "9s");
        let mut request = PublishRequest::new(builder(Wire::Lmstfy), 30);
        let (head, body) = head_and_body(request.bulk("q", [label(1, 9), label(2, 9)].into_iter()));
        assert!(head.starts_with("PUT /p/q/bulk?delay=9&"), "{head}");
        assert_eq!(
            serde_json::from_slice::<Vec<String>>(&body).unwrap().len(),
            2
        );
    }
}
