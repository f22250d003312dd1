//! Checks of relays that need no connection.

use super::config::RelayConfig;
use super::sink::RelaySinkConfig;
use super::url::UrlParts;
use crate::limits::ConfigurableLimits;
use crate::v1::input::CheckedRequest;
use crate::v1::problem::InvalidRequest;
use crate::v1::values::DurationMs;

/// How much longer than twice the time limit of the sink a job must be held, in ms: for the calls to the source.
const LEASE_MARGIN_MS: u64 = 5_000;

const HOUR_MS: u64 = 3_600_000;

/// The least and the greatest value of every number and duration (in ms) of a relay, by the name of its field.
pub const RELAY_BOUNDS: [(&str, u64, u64); 8] = [
    ("concurrency", 1, 10_000),
    // The most jobs that one call reserves.
    ("batch", 1, 256),
    ("lease", 1_000, HOUR_MS),
    ("breaker_failures", 1, 1_000),
    ("breaker_pause", 10, HOUR_MS),
    ("breaker_pause_max", 10, HOUR_MS),
    ("sink.retain", 0, 7 * 24 * HOUR_MS),
    ("sink.time_limit", 100, HOUR_MS),
];

impl RelayConfig {
    /// Checks everything except for secrets.
    ///
    /// # Errors
    /// Names the field and its rule.
    pub fn check_settings(&self) -> Result<(), InvalidRequest> {
        self.check_bounds()?;
        let of_source = |invalid: InvalidRequest| invalid.inside("source");
        self.source.check().map_err(of_source)?;
        self.sink.check().map_err(|it| it.inside("sink"))?;
        let least = self.sink.time_limit().as_ms() * 2 + LEASE_MARGIN_MS;
        if self.lease.as_ms() < least {
            let detail =
                format!("lease must be at least {least}ms: twice sink.time_limit, and 5 s more");
            return Err(InvalidRequest::of_field("lease", detail));
        }
        if self.breaker_pause > self.breaker_pause_max {
            let detail = "breaker_pause must not be longer than breaker_pause_max";
            return Err(InvalidRequest::of_field("breaker_pause", detail));
        }
        Ok(())
    }

    /// Checks that no secret is missing, and their form.
    ///
    /// # Errors
    /// Names the field and its rule. No secret is repeated.
    pub fn check_secrets(&self) -> Result<(), InvalidRequest> {
        let of_source = self.source.check_secrets();
        of_source.map_err(|it| it.inside("source"))?;
        self.sink.check_secrets().map_err(|it| it.inside("sink"))
    }

    /// Checks that no URL has a user or a password, which answers would show.
    ///
    /// # Errors
    /// The field, and the fields to use instead.
    pub fn check_without_users(&self) -> Result<(), InvalidRequest> {
        for (end, url, instead) in [
            ("source", self.source.url(), self.source.credential_fields()),
            ("sink", self.sink.url(), self.sink.credential_fields()),
        ] {
            let has_user = |url: &str| {
                let parts = UrlParts::parse(url.trim());
                parts.is_some_and(|parts| parts.user.is_some())
            };
            // A URL of another kind may have commas in its path.
            let is_list = end == "sink"
                && matches!(
                    self.sink,
                    RelaySinkConfig::Nats(_) | RelaySinkConfig::Kafka(_)
                );
            if has_user(url) || is_list && url.split(',').any(has_user) {
                let detail = format!(
                    "{end}.url has a user or a password, which answers would show; remove it, and use {instead} of {end}"
                );
                return Err(InvalidRequest::of_field(format!("{end}.url"), detail));
            }
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), InvalidRequest> {
        let retain = match &self.sink {
            RelaySinkConfig::Tidegate(config) => config.retain,
            _ => DurationMs::ZERO,
        };
        for (field, least, most) in RELAY_BOUNDS {
            let (value, unit) = match field {
                "concurrency" => (self.concurrency as u64, ""),
                "batch" => (self.batch as u64, ""),
                "breaker_failures" => (u64::from(self.breaker_failures), ""),
                "lease" => (self.lease.as_ms(), " ms"),
                "breaker_pause" => (self.breaker_pause.as_ms(), " ms"),
                "breaker_pause_max" => (self.breaker_pause_max.as_ms(), " ms"),
                "sink.retain" => (retain.as_ms(), " ms"),
                _ => (self.sink.time_limit().as_ms(), " ms"),
            };
            if !(least..=most).contains(&value) {
                let detail =
                    format!("{field} must be from {least} to {most}{unit}, not {value}{unit}");
                return Err(InvalidRequest::of_field(field, detail));
            }
        }
        Ok(())
    }
}

/// The rules for a `PUT` by itself. Secrets are checked once kept secrets are added: [`RelayConfig::check_secrets`].
impl CheckedRequest for RelayConfig {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        self.check_settings()?;
        self.check_without_users()
    }
}
