//! A webhook: each job is a POST, signed as <https://www.standardwebhooks.com> says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use sha2::Sha256;
use tidegate::api::relay::{AddressGuard, WebhookConfig};
use tidegate::api::values::{JobAttributes, header_text};
use tidegate::limits::ATTRIBUTES_BYTES_MAX;
use tidegate_http_pool::{RequestError, retry_after};

use super::{ATTRIBUTE_HEADER, RelaySink, TRACE_PARENT_HEADER};
use crate::http::{BoundedResponse, HttpClient};
use crate::job::{DeliveryOutcome, RelayJob};

/// How much of an answer is kept: its beginning becomes the error of the job.
const BODY_MAX: usize = 64 * 1024;
const ERROR_TEXT_MAX: usize = 200;
const SECRET_PREFIX: &str = "whsec_";
/// The longest delay that a `Retry-After` sets.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// A URL that receives each job.
pub(crate) struct WebhookSink {
    client: HttpClient,
    uri: Uri,
    secrets: Vec<Vec<u8>>,
    time_limit: Duration,
}

impl WebhookSink {
    /// Makes the sink. No request is sent.
    ///
    /// # Errors
    /// A setting is missing or not valid; the error begins with its name.
    pub(crate) fn new(config: &WebhookConfig) -> Result<Self, String> {
        let uri: Uri = config
            .url
            .parse()
            .map_err(|_| "url is not a URL".to_owned())?;
        let networks = AddressGuard::new(&config.allow_networks.texts());
        let guard = networks.map_err(|error| format!("allow_networks: {error}"))?;
        let secrets = config.secret.as_str().split_whitespace().map(decode_secret);
        Ok(Self {
            secrets: secrets.collect::<Result<_, _>>()?,
            client: HttpClient::new(guard, BODY_MAX)?,
            uri,
            time_limit: config.time_limit.into(),
        })
    }

    /// # Errors
    /// The attributes cannot be headers.
    fn headers(&self, job: &RelayJob, now: u64) -> Result<HeaderMap, String> {
        let bytes = JobAttributes::header_bytes(&job.attributes);
        if bytes > ATTRIBUTES_BYTES_MAX {
            return Err(format!(
                "the attributes have {bytes} bytes as headers; at most {ATTRIBUTES_BYTES_MAX} are sent"
            ));
        }
        let mut headers = HeaderMap::new();
        let mut add = |name: &str, value: &str| {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("{name:?} cannot be the name of a header"))?;
            let value = HeaderValue::from_str(value)
                .map_err(|_| format!("the value of the header {name} is not valid"))?;
            headers.insert(name, value);
            Ok::<_, String>(())
        };
        for (name, value) in &job.attributes {
            add(&format!("{ATTRIBUTE_HEADER}{name}"), &header_text(value))?;
        }
        add(
            USER_AGENT.as_str(),
            concat!("tidegate/", env!("CARGO_PKG_VERSION")),
        )?;
        add(CONTENT_TYPE.as_str(), &job.content_type)?;
        add("webhook-id", &job.id)?;
        add("webhook-timestamp", &now.to_string())?;
        if !self.secrets.is_empty() {
            let signatures = self
                .secrets
                .iter()
                .map(|secret| sign(secret, &job.id, now, &job.payload));
            let signatures: Vec<String> = signatures.collect();
            add("webhook-signature", &signatures.join(" "))?;
        }
        if let Some(span) = job.trace_parent() {
            add(TRACE_PARENT_HEADER, &span)?;
        }
        Ok(headers)
    }

    async fn deliver_one(&self, job: &RelayJob) -> DeliveryOutcome {
        let headers = match self.headers(job, unix_seconds()) {
            Ok(headers) => headers,
            Err(error) => return DeliveryOutcome::permanent(error),
        };
        let payload = Bytes::clone(&job.payload);
        let answer = self
            .client
            .send(Method::POST, &self.uri, headers, payload, self.time_limit);
        match answer.await {
            Ok(answer) => outcome(&answer),
            Err(error @ RequestError::NotConnected(_)) => {
                DeliveryOutcome::Unavailable(error.to_string())
            }
            // The job may be the cause, so this counts as a failure of the job.
            Err(error) => DeliveryOutcome::rejected(error.to_string()),
        }
    }
}

impl RelaySink for WebhookSink {
    fn batch_max(&self) -> usize {
        1
    }

    fn deliver<'a>(&'a self, jobs: &'a [RelayJob]) -> BoxFuture<'a, Vec<DeliveryOutcome>> {
        Box::pin(join_all(jobs.iter().map(|job| self.deliver_one(job))))
    }
}

fn decode_secret(secret: &str) -> Result<Vec<u8>, String> {
    let text = secret
        .strip_prefix(SECRET_PREFIX)
        .and_then(|text| STANDARD.decode(text).ok());
    text.filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
        format!("secret must be {SECRET_PREFIX} and base64, or several of these with spaces")
    })
}

fn sign(secret: &[u8], id: &str, now: u64, payload: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length is accepted");
    mac.update(format!("{id}.{now}.").as_bytes());
    mac.update(payload);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

fn unix_seconds() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "receivers compare it with their wall clocks"
    )]
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

fn outcome(answer: &BoundedResponse) -> DeliveryOutcome {
    let status = answer.status;
    if status.is_success() {
        return DeliveryOutcome::Confirmed;
    }
    let body = String::from_utf8_lossy(&answer.body);
    let body: String = body.trim().chars().take(ERROR_TEXT_MAX).collect();
    let error = match body.is_empty() {
        true => format!("status {status}"),
        false => format!("status {status}: {body}"),
    };
    match status {
        StatusCode::GONE
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => DeliveryOutcome::permanent(error),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            DeliveryOutcome::Rejected {
                error,
                // 0 is no delay: the retry policy has a pause.
                retry_in: retry_after(&answer.headers)
                    .filter(|delay| !delay.is_zero())
                    .map(|delay| delay.min(RETRY_AFTER_MAX)),
                is_permanent: false,
            }
        }
        _ => DeliveryOutcome::rejected(error),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::RETRY_AFTER;

    use super::*;

    /// The example of the specification's libraries.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let secret = decode_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = sign(
            &secret,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            b"{\"test\": 2432232314}",
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        for wrong in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_*"] {
            assert!(decode_secret(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn attributes_that_cannot_be_headers_are_an_error_and_others_are_encoded() {
        let config = serde_json::json!({"url": "https://hooks.example"});
        let sink = WebhookSink::new(&serde_json::from_value(config).unwrap()).unwrap();
        let headers = |name: &str, value: &str| {
            let mut job = RelayJob::of_test("id");
            job.attributes.insert(name.to_owned(), value.to_owned());
            sink.headers(&job, 1)
        };
        let sent = headers("city", "Z\u{fc}rich").unwrap();
        assert_eq!(sent["job-attr-city"], "Z%C3%BCrich");
        let room = ATTRIBUTES_BYTES_MAX - "job-attr-a: \r\n".len();
        assert!(headers("a", &"x".repeat(room)).is_ok());
        for (name, value, error) in [
            ("a", "x".repeat(room + 1), "8193 bytes as headers"),
            ("a", "\u{fc}".repeat(room / 4), "bytes as headers"),
            ("a b", String::new(), "cannot be the name of a header"),
        ] {
            let refused = headers(name, &value).unwrap_err();
            assert!(refused.contains(error), "{refused}");
        }
    }

    fn answer(status: u16, retry_after: Option<&str>) -> BoundedResponse {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, value.parse().unwrap());
        }
        BoundedResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: Bytes::from_static(b" sorry\n"),
        }
    }

    #[test]
    fn an_answer_says_what_becomes_of_the_job() {
        let rejected =
            |status: &str, seconds: Option<u64>, is_permanent| DeliveryOutcome::Rejected {
                error: format!("status {status}: sorry"),
                retry_in: seconds.map(Duration::from_secs),
                is_permanent,
            };
        for (answer, expected) in [
            (answer(200, None), DeliveryOutcome::Confirmed),
            (answer(204, None), DeliveryOutcome::Confirmed),
            (answer(302, None), rejected("302 Found", None, false)),
            (answer(404, None), rejected("404 Not Found", None, false)),
            (answer(410, None), rejected("410 Gone", None, true)),
            (
                answer(413, Some("7")),
                rejected("413 Payload Too Large", None, true),
            ),
            (
                answer(431, None),
                rejected("431 Request Header Fields Too Large", None, true),
            ),
            (
                answer(429, Some("Fri, 31 Dec 9999 23:59:59 GMT")),
                rejected("429 Too Many Requests", Some(86_400), false),
            ),
            (
                answer(503, Some("Sun, 06 Nov 1994 08:49:37 GMT")),
                rejected("503 Service Unavailable", None, false),
            ),
            (
                answer(429, Some("7")),
                rejected("429 Too Many Requests", Some(7), false),
            ),
            (
                answer(503, Some("99999999")),
                rejected("503 Service Unavailable", Some(86_400), false),
            ),
            (
                answer(429, Some("0")),
                rejected("429 Too Many Requests", None, false),
            ),
            (
                answer(503, Some("soon")),
                rejected("503 Service Unavailable", None, false),
            ),
            (
                answer(500, Some("7")),
                rejected("500 Internal Server Error", None, false),
            ),
        ] {
            assert_eq!(outcome(&answer), expected);
        }
    }
}
