//! A rate limit in the JSON of lmstfy.

use serde::{Deserialize, Serialize};
use tidegate_store::RateLimit;

use super::error::AdminError;
use crate::http::json;

/// A limit in JSON. Absent fields are 0. The fields have the order of lmstfy, which is not alphabetical here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LimitBody {
    read: i64,
    write: i64,
    interval: i64,
}

impl From<RateLimit> for LimitBody {
    fn from(limit: RateLimit) -> Self {
        Self {
            read: limit.read,
            write: limit.write,
            interval: limit.interval_seconds.into(),
        }
    }
}

impl LimitBody {
    pub(super) fn read(body: &[u8]) -> Result<RateLimit, AdminError> {
        let limiter: Self = json::parse_object(body).map_err(|_| AdminError::NotALimit)?;
        limiter.check()
    }

    /// Checks the values. The order of the checks decides which error is answered.
    fn check(self) -> Result<RateLimit, AdminError> {
        if self.read == 0 && self.write == 0 {
            return Err(AdminError::LimitsNothing(self));
        }
        if self.interval == 0 {
            return Err(AdminError::IntervalZero);
        }
        if self.interval < 0 {
            return Err(AdminError::IntervalNegative);
        }
        if self.read <= 0 && self.write <= 0 {
            return Err(AdminError::LimitsNegative);
        }
        let interval_seconds =
            u32::try_from(self.interval).map_err(|_| AdminError::IntervalTooLong)?;
        Ok(RateLimit {
            read: self.read,
            write: self.write,
            interval_seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(body: &str, outcome: Result<(i64, i64, u32), AdminError>) {
        let outcome = outcome.map(|(read, write, interval_seconds)| RateLimit {
            read,
            write,
            interval_seconds,
        });
        assert_eq!(LimitBody::read(body.as_bytes()), outcome, "{body}");
    }

    #[test]
    fn a_limit_needs_an_interval_and_a_positive_side() {
        expect(r#"{"read":1,"write":2,"interval":3}"#, Ok((1, 2, 3)));
        expect(r#"{"read":1,"interval":3,"more":[]}"#, Ok((1, 0, 3)));
        expect(r#"{"read":-1,"write":2,"interval":3}"#, Ok((-1, 2, 3)));
        expect(r#"{"read":-1}"#, Err(AdminError::IntervalZero));
        let nothing = |interval| {
            let (read, write) = (0, 0);
            AdminError::LimitsNothing(LimitBody {
                read,
                write,
                interval,
            })
        };
        expect("{}", Err(nothing(0)));
        expect(r#"{"interval":-1}"#, Err(nothing(-1)));
        expect(r#"{"read":1}"#, Err(AdminError::IntervalZero));
        let negative = r#"{"read":1,"interval":-1}"#;
        expect(negative, Err(AdminError::IntervalNegative));
        let alone = r#"{"read":-1,"interval":1}"#;
        expect(alone, Err(AdminError::LimitsNegative));
        let long = r#"{"read":1,"interval":4294967296}"#;
        expect(long, Err(AdminError::IntervalTooLong));
    }

    #[test]
    fn a_body_that_is_no_object_of_integers_is_rejected() {
        for body in [
            "",
            "x",
            "null",
            "[1,2,3]",
            r#"{"read":"1"}"#,
            r#"{"read":1.5}"#,
        ] {
            expect(body, Err(AdminError::NotALimit));
        }
    }
}
