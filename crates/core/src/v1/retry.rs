//! Retry policies: when a failed job is delivered again.

use serde::{Deserialize, Serialize};

use crate::limits::{RETRY_DELAY_MS_MAX, RETRY_DELAYS_MAX, RETRY_FACTOR_MAX};
use crate::v1::problem::InvalidRequest;
use crate::v1::values::{DurationMs, MaxAttempts, in_ms};

/// The delay before the first retry of the default policy.
const FIRST: DurationMs = DurationMs::saturating(1_000);
/// The longest delay of a policy with `first` and without `max`.
const LONGEST: DurationMs = DurationMs::saturating(3_600_000);
const FACTOR: f64 = 2.0;
const JITTER: f64 = 0.1;

/// When failed jobs are retried. Delays are given in one of three ways: `delays` lists them; `every` is the same delay
/// each time; `first`, `factor` (2) and `max` (1 h) describe growing delays. At most 16 delays are listed; the last one
/// repeats. What is absent is as in the policy of the queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RetryPolicyBody {
    /// After how many failed attempts the job is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<MaxAttempts>,
    /// The delays before each retry; the last one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 16))]
    pub delays: Option<Vec<DurationMs>>,
    /// The delay before every retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<DurationMs>,
    /// The delay before the first retry; the following ones grow. At least 1 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<DurationMs>,
    /// By what each delay is multiplied to obtain the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub factor: Option<f64>,
    /// The longest delay of a policy with `first`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<DurationMs>,
    /// The random part of each delay, from 0 to 1: 0.1 makes it up to 10 % longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
    pub jitter: Option<f64>,
}

/// A complete retry policy. Either `delays_ms` lists the delays, or `first_ms`, `factor` and `max_ms` say how they grow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetryDetails {
    /// After how many failed attempts a job is dead.
    pub max_attempts: MaxAttempts,
    /// The delays before each retry, 1 to 16; the last one repeats.
    #[serde(
        rename = "delays_ms",
        default,
        with = "in_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<crate::openapi::AnswerDuration>>))]
    pub delays: Option<Vec<DurationMs>>,
    /// The delay before the first retry.
    #[serde(
        rename = "first_ms",
        default,
        with = "in_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::AnswerDuration>))]
    pub first: Option<DurationMs>,
    /// By what each delay is multiplied to obtain the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The longest delay.
    #[serde(
        rename = "max_ms",
        default,
        with = "in_ms",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::openapi::AnswerDuration>))]
    pub max: Option<DurationMs>,
    /// The random part of each delay, from 0 to 1.
    pub jitter: f64,
}

impl Default for RetryDetails {
    /// 1 s, doubled up to 1 h, with a jitter of 0.1, and 10 attempts.
    fn default() -> Self {
        Self {
            max_attempts: MaxAttempts::default(),
            delays: None,
            first: Some(FIRST),
            factor: Some(FACTOR),
            max: Some(LONGEST),
            jitter: JITTER,
        }
    }
}

impl RetryDetails {
    /// This policy with the delays of another one.
    #[must_use]
    pub fn with_delays_of(self, other: &Self) -> Self {
        Self {
            max_attempts: self.max_attempts,
            jitter: self.jitter,
            ..other.clone()
        }
    }
}

impl RetryPolicyBody {
    /// Whether it says anything about delays.
    #[must_use]
    pub const fn has_delays(&self) -> bool {
        self.delays.is_some()
            || self.every.is_some()
            || self.first.is_some()
            || self.factor.is_some()
            || self.max.is_some()
    }

    /// Checks that delays are given in one way, and the ranges.
    ///
    /// # Errors
    /// The field, relative to the policy.
    pub fn check(&self) -> Result<(), InvalidRequest> {
        let ways = [
            ("delays", self.delays.is_some()),
            ("every", self.every.is_some()),
            ("first", self.first.is_some()),
        ];
        let mut given = ways.iter().filter(|(_, is_given)| *is_given);
        if let (Some((one, _)), Some((other, _))) = (given.next(), given.next()) {
            return Err(InvalidRequest::of_both(one, other));
        }
        for (name, is_given) in [
            ("factor", self.factor.is_some()),
            ("max", self.max.is_some()),
        ] {
            if is_given && self.first.is_none() {
                let detail = format!("{name} needs first, the delay before the first retry");
                return Err(InvalidRequest::of_field(name, detail));
            }
        }
        let count = self.delays.as_ref().map(Vec::len);
        if count.is_some_and(|count| !(1..=RETRY_DELAYS_MAX).contains(&count)) {
            let detail =
                format!("a policy has 1 to {RETRY_DELAYS_MAX} delays; the last one repeats");
            return Err(InvalidRequest::of_field("delays", detail));
        }
        self.check_delays()?;
        self.check_numbers()
    }

    fn check_delays(&self) -> Result<(), InvalidRequest> {
        let is_too_long = |delay: &DurationMs| delay.as_ms() > RETRY_DELAY_MS_MAX;
        for (name, has_too_long) in [
            ("delays", self.delays.iter().flatten().any(is_too_long)),
            ("every", self.every.iter().any(is_too_long)),
            ("first", self.first.iter().any(is_too_long)),
            ("max", self.max.iter().any(is_too_long)),
        ] {
            if has_too_long {
                let detail = "a delay of a retry policy must be at most 30d";
                return Err(InvalidRequest::of_field(name, detail));
            }
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), InvalidRequest> {
        if self.first == Some(DurationMs::ZERO) {
            return Err(InvalidRequest::of_field(
                "first",
                "the first delay must be at least 1 ms, or it cannot grow",
            ));
        }
        if self
            .first
            .is_some_and(|first| first > self.max.unwrap_or(LONGEST))
        {
            let detail = "the longest delay (max, by default 1h) must not be shorter than first";
            return Err(InvalidRequest::of_field("max", detail));
        }
        if self
            .factor
            .is_some_and(|factor| !(1.0..=RETRY_FACTOR_MAX).contains(&factor))
        {
            return Err(InvalidRequest::of_field(
                "factor",
                "the factor must be from 1 to 1000",
            ));
        }
        if self
            .jitter
            .is_some_and(|jitter| !(0.0..=1.0).contains(&jitter) || !is_permille(jitter))
        {
            return Err(InvalidRequest::of_field(
                "jitter",
                "the jitter must be from 0 to 1, with at most three decimals",
            ));
        }
        Ok(())
    }

    /// The complete policy; what this one leaves open is as in `otherwise`.
    ///
    /// # Errors
    /// Those of [`Self::check`].
    pub fn complete(&self, otherwise: &RetryDetails) -> Result<RetryDetails, InvalidRequest> {
        self.check()?;
        let delays = match (&self.delays, self.every, self.first) {
            (None, None, None) => otherwise.clone(),
            (_, _, Some(first)) => RetryDetails {
                first: Some(first),
                factor: self.factor.or(Some(FACTOR)),
                max: self.max.or(Some(LONGEST)),
                ..RetryDetails::default()
            },
            (delays, every, None) => RetryDetails {
                delays: delays.clone().or_else(|| every.map(|every| vec![every])),
                first: None,
                factor: None,
                max: None,
                ..RetryDetails::default()
            },
        };
        Ok(RetryDetails {
            max_attempts: self.max_attempts.unwrap_or(otherwise.max_attempts),
            jitter: self.jitter.unwrap_or(otherwise.jitter),
            ..delays
        })
    }
}

/// Whether a share is stored as it is: in thousandths.
fn is_permille(share: f64) -> bool {
    let permille = share * 1000.0;
    (permille - permille.round()).abs() < 1e-6
}

#[cfg(test)]
mod tests;
