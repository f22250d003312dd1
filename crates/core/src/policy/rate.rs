//! Rates: how many jobs may be delivered in a time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::bounds::{InvalidPolicy, UnreadablePolicy, within, within_ms};
use crate::limits::{RATE_JOBS_MAX, RATE_PER_MS_MAX, RATE_PER_MS_MIN};

/// How many jobs may be delivered in a time: a bucket with `jobs` units, which fills evenly in this time, and of which
/// each delivery takes one. So up to `jobs` deliveries may follow one another at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rate {
    /// The number of jobs.
    pub jobs: u64,
    /// The time.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::answer::AnswerDuration))]
    pub per_ms: u64,
}

impl Rate {
    /// Checks the bounds of both values. The error names the fields of a policy.
    ///
    /// # Errors
    /// A value is out of its bounds.
    pub fn check(self) -> Result<(), InvalidPolicy> {
        within("rate.jobs", self.jobs, 1, RATE_JOBS_MAX)?;
        within_ms("rate.per_ms", self.per_ms, RATE_PER_MS_MIN, RATE_PER_MS_MAX)
    }
}

/// The stored text: jobs, a comma, and the time in ms.
impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{},{}", self.jobs, self.per_ms)
    }
}

/// Reads the text that [`fmt::Display`] writes.
impl FromStr for Rate {
    type Err = UnreadablePolicy;

    fn from_str(text: &str) -> Result<Self, UnreadablePolicy> {
        let (jobs, per_ms) = text.split_once(',').ok_or(UnreadablePolicy)?;
        let rate = Self {
            jobs: jobs.parse().map_err(|_| UnreadablePolicy)?,
            per_ms: per_ms.parse().map_err(|_| UnreadablePolicy)?,
        };
        match rate.check().is_ok() && rate.to_string() == text {
            true => Ok(rate),
            false => Err(UnreadablePolicy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_one_text_and_bounds() {
        for text in ["100,1000", "1,100", "1000000,86400000"] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.to_string(), text);
        }
        for text in [
            "",
            "100",
            "0,1000",
            "1000001,1000",
            "1,99",
            "1,86400001",
            "+1,1000",
            "1,1000,",
            "1, 1000",
        ] {
            assert_eq!(text.parse::<Rate>(), Err(UnreadablePolicy), "{text}");
        }
        let error = Rate {
            jobs: 0,
            per_ms: 1000,
        }
        .check()
        .unwrap_err();
        assert_eq!(error.to_string(), "rate.jobs should be from 1 to 1000000");
    }
}
