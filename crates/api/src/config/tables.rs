//! The tables of the settings.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// A password of the admin port. It is never shown.
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

/// How large requests may be, and how long they may take.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestLimits {
    /// The longest wait for each MiB of a body.
    #[serde(with = "humantime_serde")]
    pub body_timeout: Duration,
    /// The longest name of a namespace or queue, in bytes; 1 to 255.
    pub name_bytes_max: usize,
    /// The longest body of a job, in bytes; up to 8 MiB.
    pub job_bytes_max: usize,
    /// The longest body of a bulk publish, in bytes; up to 1 GiB.
    pub bulk_bytes_max: usize,
    /// Jobs in a bulk publish; 1 to 64.
    pub bulk_jobs_max: usize,
    /// Jobs that one consume may ask for; 1 to 100.
    pub consume_jobs_max: u16,
    /// Queues that one consume may name.
    pub consume_queues_max: usize,
    /// Jobs that may wait to be stored, for each pool; 1 to 1,000,000.
    pub backlog_jobs_max: usize,
    /// Bytes of their bodies and attributes; up to 64 GiB.
    pub backlog_bytes_max: usize,
    /// Bytes of requests that were received and are not answered yet: an eighth of it for headers, the rest
    /// for bodies.
    pub in_flight_bytes_max: usize,
    /// Bytes of answers to consumes that clients have not read yet. Where there is no room left an answer has fewer
    /// jobs, at least one.
    pub unread_bytes_max: usize,
    /// The longest time, apart from what the client takes: for its body, and while it waits for a job.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
}

/// How consumers wait.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaiterConfig {
    /// The longest time between two looks at a queue that somebody waits for, should every message
    /// from Redis be lost.
    #[serde(with = "humantime_serde")]
    pub poll_interval: Duration,
    /// The longest wait; longer wishes are cut.
    #[serde(with = "humantime_serde")]
    pub wait_max: Duration,
    /// How many may wait in this process.
    pub in_process_max: usize,
    /// How many of them with the same token.
    pub per_token_max: usize,
}

/// What metrics may cost.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsConfig {
    /// How many queues of a pool are told apart, and how many namespaces.
    pub queues_max: usize,
    /// How long what was read from Redis for a scrape is remembered.
    #[serde(with = "humantime_serde")]
    pub refresh: Duration,
}

/// What applies where a request does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobDefaults {
    /// From publishing to expiry; 0 = never.
    pub ttl_seconds: u32,
    /// From publishing to being consumable.
    pub delay_seconds: u32,
    /// Deliveries.
    pub tries: u16,
    /// The length of a lease.
    pub ttr_seconds: u32,
    /// The longest wait for a job; 0 = do not wait.
    pub timeout_seconds: u32,
}

impl JobDefaults {
    /// What `config/api.toml` says; for tests, which have no file.
    pub(crate) const SHIPPED: Self = Self {
        ttl_seconds: 86400,
        delay_seconds: 0,
        tries: 1,
        ttr_seconds: 120,
        timeout_seconds: 0,
    };
}

impl RequestLimits {
    /// How many bytes of headers there may be.
    pub(crate) const fn headers_bytes_max(&self) -> usize {
        self.in_flight_bytes_max / 8
    }

    /// How many bytes of bodies there may be.
    pub(crate) const fn bodies_bytes_max(&self) -> usize {
        self.in_flight_bytes_max - self.headers_bytes_max()
    }

    /// # Errors
    /// A header or a body that may be as large has no room among all of its kind.
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

    /// What `config/api.toml` says; for tests, which have no file.
    pub(crate) const SHIPPED: Self = Self {
        body_timeout: Duration::from_secs(30),
        name_bytes_max: 255,
        job_bytes_max: 1 << 20,
        bulk_bytes_max: 67_174_400,
        bulk_jobs_max: 64,
        consume_jobs_max: 100,
        consume_queues_max: 1000,
        backlog_jobs_max: 50_000,
        backlog_bytes_max: 256 << 20,
        in_flight_bytes_max: 256 << 20,
        unread_bytes_max: 256 << 20,
        timeout: Duration::from_secs(30),
    };
}
