//! The tables of the settings that other modules use.

use std::fmt;
use std::time::Duration;

use hyper::Uri;
use serde::Deserialize;

/// A password of an account of the admin port. Its `Debug` output does not contain it.
#[derive(Clone, Deserialize)]
#[serde(from = "String")]
pub struct Password(Box<str>);

impl Password {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Password(…)")
    }
}

/// The server of lmstfy whose queues drain into this one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainedServerConfig {
    /// Its URL; empty = there is none.
    url: String,
}

impl DrainedServerConfig {
    /// Its URL; `None` = there is no such server.
    pub(crate) fn uri(&self) -> Option<Uri> {
        let url: Option<Uri> = self.url.parse().ok();
        url.filter(|url| {
            matches!(url.scheme_str(), Some("http" | "https")) && url.query().is_none()
        })
    }

    /// # Errors
    /// The URL is not valid. It may have a password, so the error does not repeat it.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.url.is_empty() || self.uri().is_some() {
            true => Ok(()),
            false => Err(
                "drained_server.url must be like \"http://lmstfy.internal:7777\", or empty"
                    .to_owned(),
            ),
        }
    }
}

/// The rights of an account of the admin port. Each role includes the roles before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountRole {
    /// Look at the dashboard.
    View,
    /// Pause queues, schedules and relays there, and respawn, promote, change and cancel jobs.
    Operate,
    /// Everything, also at the routes of the admin port: tokens, keys, limits, lanes, policies.
    Admin,
}

impl AccountRole {
    /// Its name in the settings.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// The limits on size and duration of requests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestLimits {
    /// The longest wait for each MiB of a body.
    #[serde(with = "tidegate_core::duration")]
    pub body_timeout: Duration,
    /// The longest name of a namespace or queue, in bytes.
    pub name_bytes_max: usize,
    /// The longest body of a job, in bytes.
    pub job_bytes_max: usize,
    /// The longest result of a job, in bytes.
    pub result_bytes_max: usize,
    /// The longest body of a bulk publish, in bytes.
    pub bulk_bytes_max: usize,
    /// The most jobs in a bulk publish.
    pub bulk_jobs_max: usize,
    /// The most jobs that one consume may request.
    pub consume_jobs_max: u16,
    /// The most queues that one consume may name.
    pub consume_queues_max: usize,
    /// The most jobs that may wait to be stored, for each pool.
    pub backlog_jobs_max: usize,
    /// The most bytes of their bodies and attributes, for each pool.
    pub backlog_bytes_max: usize,
    /// The most bytes of requests that were received and are not answered yet: an eighth for headers, the rest for
    /// bodies.
    pub in_flight_bytes_max: usize,
    /// The most bytes of answers to consumes that clients have not read yet.
    pub unread_bytes_max: usize,
    /// The longest time for a request, without the time for which its body is awaited or a consumer waits for a job.
    #[serde(with = "tidegate_core::duration")]
    pub timeout: Duration,
}

/// How consumers wait for jobs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaiterConfig {
    /// The longest time between two checks of a queue that has waiting consumers.
    #[serde(with = "tidegate_core::duration")]
    pub poll_interval: Duration,
    /// The longest wait; longer timeouts are reduced to it.
    #[serde(with = "tidegate_core::duration")]
    pub wait_max: Duration,
    /// The most consumers that may wait in this process.
    pub in_process_max: usize,
    /// The most of them with the same token.
    pub per_token_max: usize,
    /// The most seats of consumers with the same token. A consumer has a seat in each queue that it names.
    pub seats_per_token_max: usize,
}

/// The defaults of request parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobDefaults {
    /// Seconds from publish to expiry; 0 = never.
    pub ttl_seconds: u32,
    /// Seconds from publish until the job is ready.
    pub delay_seconds: u32,
    /// The most deliveries.
    pub tries: u16,
    /// The length of a lease, in seconds.
    pub ttr_seconds: u32,
    /// The longest wait for a job, in seconds; 0 = do not wait.
    pub timeout_seconds: u32,
}

impl RequestLimits {
    /// The most bytes of headers.
    pub(crate) const fn headers_bytes_max(&self) -> usize {
        self.in_flight_bytes_max / 8
    }

    /// The most bytes of bodies.
    pub(crate) const fn bodies_bytes_max(&self) -> usize {
        self.in_flight_bytes_max - self.headers_bytes_max()
    }

    /// # Errors
    /// The limit of a single header or body is more than the limit of all headers or all bodies together.
    pub(super) fn check(&self, header_bytes_max: usize) -> Result<(), String> {
        let (headers, bodies) = (self.headers_bytes_max(), self.bodies_bytes_max());
        let limits = [
            (
                "connections.header_bytes_max",
                header_bytes_max,
                headers,
                "an eighth",
            ),
            (
                "requests.job_bytes_max",
                self.job_bytes_max,
                bodies,
                "seven eighths",
            ),
            (
                "requests.bulk_bytes_max",
                self.bulk_bytes_max,
                bodies,
                "seven eighths",
            ),
        ];
        for (key, bytes, bytes_max, part) in limits {
            if bytes > bytes_max {
                return Err(format!(
                    "{key} ({bytes}) is more than {part} of requests.in_flight_bytes_max ({}): lower the one or \
                     raise the other",
                    self.in_flight_bytes_max
                ));
            }
        }
        Ok(())
    }
}
