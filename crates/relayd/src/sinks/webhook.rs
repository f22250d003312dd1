//! A webhook: each job is a POST, signed as <https://www.standardwebhooks.com> says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use sha2::Sha256;
use tidegate::api::relay::{AddressGuard, WebhookConfig};

use super::{ATTRIBUTE_HEADER, RelaySink, TRACE_PARENT_HEADER};
use crate::http::{BoundedResponse, HttpClient, HttpError};
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
            client: HttpClient::new(Some(guard), BODY_MAX)?,
            uri,
            time_limit: config.time_limit.into(),
        })
    }

    fn headers(&self, job: &RelayJob, now: u64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut add = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        add(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")));
        add(CONTENT_TYPE, &job.content_type);
        add(HeaderName::from_static("webhook-id"), &job.id);
        add(
            HeaderName::from_static("webhook-timestamp"),
            &now.to_string(),
        );
        if !self.secrets.is_empty() {
            let signatures = self
                .secrets
                .iter()
                .map(|secret| sign(secret, &job.id, now, &job.payload));
            let signatures: Vec<String> = signatures.collect();
            add(
                HeaderName::from_static("webhook-signature"),
                &signatures.join(" "),
            );
        }
        if let Some(span) = job.trace_parent() {
            add(HeaderName::from_static(TRACE_PARENT_HEADER), &span);
        }
        for (name, value) in &job.attributes {
            let name = format!("{ATTRIBUTE_HEADER}{name}").to_ascii_lowercase();
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                add(name, value);
            }
        }
        headers
    }

    async fn deliver_one(&self, job: &RelayJob) -> DeliveryOutcome {
        let headers = self.headers(job, unix_seconds());
        let payload = Bytes::clone(&job.payload);
        let answer = self
            .client
            .send(Method::POST, &self.uri, headers, payload, self.time_limit);
        match answer.await {
            Ok(answer) => outcome(&answer),
            Err(HttpError::NotConnected(error)) => {
                DeliveryOutcome::Unavailable(format!("failed to connect: {error}"))
            }
            // The job may be the cause, so this counts as a failure of the job.
            Err(error @ HttpError::NoAnswer(_)) => DeliveryOutcome::rejected(error.to_string()),
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
        StatusCode::GONE => DeliveryOutcome::permanent(error),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            DeliveryOutcome::Rejected {
                error,
                retry_in: retry_after(&answer.headers),
                is_permanent: false,
            }
        }
        _ => DeliveryOutcome::rejected(error),
    }
}

/// The delay in seconds. A date is ignored: the clocks of two machines differ. So is 0: the retry policy has a pause.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = seconds.parse().ok().filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
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

    fn answer(status: u16, retry_after: Option<&str>) -> BoundedResponse {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, value.parse().unwrap());
        }
        BoundedResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: Bytes::from_static(b" sorry\n"),
            is_cut_off: false,
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
