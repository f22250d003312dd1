//! Rates in requests: how many jobs may be delivered in a time.

use serde::{Deserialize, Serialize};

use crate::Rate;
use crate::limits::ConfigurableLimits;
use crate::v1::field_change::FieldChange;
use crate::v1::input::CheckedRequest;
use crate::v1::problem::InvalidRequest;
use crate::v1::values::DurationMs;

/// The time of a rate that has none.
const PER: DurationMs = DurationMs::saturating(1_000);

/// A rate, or a change of it: up to `jobs` deliveries may follow one another at once, and as many become possible
/// again, evenly, in the time `per`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RateChange {
    /// The number of jobs, up to 1,000,000. A new rate needs it.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>, minimum = 1, maximum = 1_000_000))]
    pub jobs: FieldChange<u64>,
    /// The time: 100 ms to 24 h, 1 s by default.
    #[serde(default, skip_serializing_if = "FieldChange::is_kept")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<DurationMs>))]
    pub per: FieldChange<DurationMs>,
}

impl RateChange {
    /// The rate after the change.
    ///
    /// # Errors
    /// It lacks the number of jobs, or a value is out of its bounds.
    pub fn apply_to(&self, current: Option<Rate>) -> Result<Rate, InvalidRequest> {
        let jobs = self.jobs.apply_to_option(current.map(|rate| rate.jobs));
        let per_ms = current.map_or(PER.as_ms(), |rate| rate.per_ms);
        let per_ms = self.per.map(|per| per.as_ms()).apply(per_ms, PER.as_ms());
        let Some(jobs) = jobs else {
            let detail = "jobs is missing: how many jobs may be delivered in the time `per`";
            return Err(InvalidRequest::of_field("jobs", detail));
        };
        let rate = Rate { jobs, per_ms };
        checked(rate)?;
        Ok(rate)
    }
}

fn checked(rate: Rate) -> Result<(), InvalidRequest> {
    rate.check().map_err(|invalid| {
        let field = invalid.field.trim_start_matches("rate.");
        let field = field.trim_end_matches("_ms");
        InvalidRequest::of_field(field, format!("{field} should be {}", invalid.bounds))
    })
}

impl From<Rate> for RateChange {
    fn from(rate: Rate) -> Self {
        Self {
            jobs: rate.jobs.into(),
            per: DurationMs::saturating(rate.per_ms).into(),
        }
    }
}

impl CheckedRequest for RateChange {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        checked(Rate {
            jobs: self.jobs.value().copied().unwrap_or(1),
            per_ms: self.per.value().map_or(PER.as_ms(), |per| per.as_ms()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(change: &str, current: Option<Rate>) -> Result<Rate, Option<String>> {
        let change: RateChange = serde_json::from_str(change).unwrap();
        let field = |invalid: InvalidRequest| invalid.field;
        change.apply_to(current).map_err(field)
    }

    #[test]
    fn a_rate_needs_jobs_and_has_a_second_by_default() {
        let rate = |jobs, per_ms| Rate { jobs, per_ms };
        assert_eq!(applied(r#"{"jobs":100}"#, None), Ok(rate(100, 1000)));
        assert_eq!(
            applied(r#"{"jobs":1,"per":"24h"}"#, None),
            Ok(rate(1, 86_400_000))
        );
        let current = Some(rate(5, 60_000));
        assert_eq!(applied(r#"{"jobs":7}"#, current), Ok(rate(7, 60_000)));
        assert_eq!(applied(r#"{"per":null}"#, current), Ok(rate(5, 1000)));
        let named = |field: &str| Err(Some(field.to_owned()));
        assert_eq!(applied(r#"{"per":"1s"}"#, None), named("jobs"));
        assert_eq!(applied(r#"{"jobs":null}"#, current), named("jobs"));
        assert_eq!(applied(r#"{"jobs":0}"#, None), named("jobs"));
        assert_eq!(applied(r#"{"jobs":1,"per":"99ms"}"#, None), named("per"));
    }
}
