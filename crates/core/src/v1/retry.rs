//! Retry policies in requests: when a failed job is delivered again.

use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::{RETRY_DELAY_MS_MAX, RETRY_DELAYS_MAX, RETRY_FACTOR_MAX};
use crate::v1::field_change::FieldChange;
use crate::v1::input::optional_object;
use crate::v1::problem::InvalidRequest;
use crate::v1::values::{DurationMs, MaxAttempts};
use crate::{RetryDelays, RetryPolicy, RetrySteps};

/// The longest delay of a policy with `first` and without `max`.
const LONGEST: DurationMs = DurationMs::saturating(3_600_000);
/// The factor of a policy with `first` and without `factor`.
const FACTOR: f64 = 2.0;

/// When failed jobs are retried, or a change of it. Delays are given in one of three ways, and are replaced as a whole:
/// `delays` lists them; `every` is the same delay each time; `first`, `factor` (2) and `max` (1 h) describe growing
/// delays. At most 16 delays are listed; the last one repeats. For a job, the rest is as in the policy of its queue.
/// For a queue, it stays as it is, and `null` stands for the default; for any of the delays, for the default delays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RetryChange {
    /// After how many failed attempts the job is dead.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<MaxAttempts>))]
    pub max_attempts: FieldChange<MaxAttempts>,
    /// The delays before each retry; the last one repeats.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<DurationMs>>, min_items = 1, max_items = 16))]
    pub delays: FieldChange<Vec<DurationMs>>,
    /// The delay before every retry.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub every: FieldChange<DurationMs>,
    /// The delay before the first retry; the following ones grow. At least 1 ms.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub first: FieldChange<DurationMs>,
    /// The factor from each delay to the next.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>, minimum = 1, maximum = 1000))]
    pub factor: FieldChange<f64>,
    /// The longest delay of a policy with `first`.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub max: FieldChange<DurationMs>,
    /// The random part of each delay, from 0 to 1: 0.1 makes it up to 10 % longer.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>, minimum = 0, maximum = 1))]
    pub jitter: FieldChange<f64>,
}

/// Reads the retry policy of a job, in which `null` says as little as nothing.
pub(crate) fn retry_of_job<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<RetryChange>, D::Error> {
    let retry: Option<RetryChange> = optional_object(deserializer)?;
    Ok(retry.map(|retry| RetryChange {
        max_attempts: retry.max_attempts.unless_reset(),
        delays: retry.delays.unless_reset(),
        every: retry.every.unless_reset(),
        first: retry.first.unless_reset(),
        factor: retry.factor.unless_reset(),
        max: retry.max.unless_reset(),
        jitter: retry.jitter.unless_reset(),
    }))
}

impl RetryChange {
    /// Whether it says anything about delays.
    pub fn has_delays(&self) -> bool {
        self.steps().is_some()
    }

    /// Checks that delays are given in one way, and the ranges.
    ///
    /// # Errors
    /// The field, relative to the policy.
    pub fn check(&self) -> Result<(), InvalidRequest> {
        let ways = [
            ("delays", self.delays.value().is_some()),
            ("every", self.every.value().is_some()),
            ("first", self.first.value().is_some()),
        ];
        let mut given = ways.iter().filter(|(_, is_given)| *is_given);
        if let (Some((one, _)), Some((other, _))) = (given.next(), given.next()) {
            return Err(InvalidRequest::of_both(one, other));
        }
        for (name, is_given) in [
            ("factor", self.factor.value().is_some()),
            ("max", self.max.value().is_some()),
        ] {
            if is_given && self.first.value().is_none() {
                let detail = format!("{name} needs first, the delay before the first retry");
                return Err(InvalidRequest::of_field(name, detail));
            }
        }
        let count = self.delays.value().map(Vec::len);
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
            (
                "delays",
                self.delays.value().into_iter().flatten().any(is_too_long),
            ),
            ("every", self.every.value().is_some_and(is_too_long)),
            ("first", self.first.value().is_some_and(is_too_long)),
            ("max", self.max.value().is_some_and(is_too_long)),
        ] {
            if has_too_long {
                let detail = "a delay of a retry policy must be at most 30d";
                return Err(InvalidRequest::of_field(name, detail));
            }
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), InvalidRequest> {
        if self.first.value() == Some(&DurationMs::ZERO) {
            return Err(InvalidRequest::of_field(
                "first",
                "the first delay must be at least 1 ms, or it cannot grow",
            ));
        }
        if self
            .first
            .value()
            .is_some_and(|first| first > self.max.value().unwrap_or(&LONGEST))
        {
            let detail = "the longest delay (max, by default 1h) must not be shorter than first";
            return Err(InvalidRequest::of_field("max", detail));
        }
        if self
            .factor
            .value()
            .is_some_and(|factor| !(1.0..=RETRY_FACTOR_MAX).contains(factor))
        {
            return Err(InvalidRequest::of_field(
                "factor",
                "the factor must be from 1 to 1000",
            ));
        }
        if self
            .jitter
            .value()
            .is_some_and(|jitter| !(0.0..=1.0).contains(jitter) || !is_permille(*jitter))
        {
            return Err(InvalidRequest::of_field(
                "jitter",
                "the jitter must be from 0 to 1, with at most three decimals",
            ));
        }
        Ok(())
    }

    /// The policy after the change. Fields that the change leaves open are as in `current`.
    ///
    /// # Errors
    /// As for [`Self::check`].
    pub fn apply_to(&self, current: &RetryPolicy) -> Result<RetryPolicy, InvalidRequest> {
        self.check()?;
        let default = RetryPolicy::default();
        let otherwise = match self.resets_delays() {
            true => default.delays.steps,
            false => current.delays.steps.clone(),
        };
        let permille = |jitter: &f64| (jitter * 1000.0).round() as u16;
        let jitter = self.jitter.map(permille);
        let attempts = self.max_attempts.map(|attempts| attempts.get());
        let current_permille = current.delays.jitter_permille;
        Ok(RetryPolicy {
            delays: RetryDelays {
                steps: self.steps().unwrap_or(otherwise),
                jitter_permille: jitter.apply(current_permille, default.delays.jitter_permille),
            },
            max_attempts: attempts.apply(current.max_attempts, default.max_attempts),
        })
    }

    /// The delays, if the change sets them.
    fn steps(&self) -> Option<RetrySteps> {
        if let Some(first) = self.first.value() {
            return Some(RetrySteps::Growing {
                first_ms: first.as_ms(),
                factor: self.factor.value().copied().unwrap_or(FACTOR),
                max_ms: self.max.value().unwrap_or(&LONGEST).as_ms(),
            });
        }
        let every = self.every.value().map(std::slice::from_ref);
        let listed = self.delays.value().map(Vec::as_slice).or(every)?;
        Some(RetrySteps::Listed(
            listed.iter().map(|delay| delay.as_ms()).collect(),
        ))
    }

    fn resets_delays(&self) -> bool {
        self.delays == FieldChange::Reset
            || self.every == FieldChange::Reset
            || self.first == FieldChange::Reset
            || self.factor == FieldChange::Reset
            || self.max == FieldChange::Reset
    }
}

/// Whether a share is stored as it is: in thousandths.
fn is_permille(share: f64) -> bool {
    let permille = share * 1000.0;
    (permille - permille.round()).abs() < 1e-6
}

#[cfg(test)]
mod tests;
