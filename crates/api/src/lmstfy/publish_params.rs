//! The query parameters of all publishes.

use bytes::Bytes;
use tidegate_core::NewJob;

use super::attributes::JobHeaders;
use super::error::ApiError;
use crate::config::JobDefaults;
use crate::http::query::Query;

/// The delay, the time to live and the tries of the jobs of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublishParams {
    delay_seconds: u32,
    ttl_seconds: u32,
    tries: u16,
}

impl PublishParams {
    /// Reads the parameters `delay`, `ttl` and `tries`; `defaults` apply to absent ones.
    ///
    /// # Errors
    /// The first invalid one, in this order: delay, ttl, a ttl shorter than the delay, tries.
    pub(crate) fn read(query: &Query<'_>, defaults: &JobDefaults) -> Result<Self, ApiError> {
        let delay_seconds = query.number("delay", defaults.delay_seconds)?;
        let ttl_seconds = query.number("ttl", defaults.ttl_seconds)?;
        if ttl_seconds > 0 && ttl_seconds < delay_seconds {
            return Err(ApiError::TtlShorterThanDelay);
        }
        let tries = query.number("tries", defaults.tries)?;
        if tries == 0 {
            return Err(ApiError::NoTries);
        }
        Ok(Self {
            delay_seconds,
            ttl_seconds,
            tries,
        })
    }

    /// A job with these parameters.
    pub(crate) fn job(self, body: Bytes, extras: &JobHeaders) -> NewJob {
        NewJob {
            body,
            attributes: extras.attributes.clone(),
            delay_ms: u64::from(self.delay_seconds) * 1000,
            ttl_ms: u64::from(self.ttl_seconds) * 1000,
            tries: self.tries,
            mark: extras.versioned_id,
            native: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SHIPPED;

    #[track_caller]
    fn expect(query: &str, outcome: Result<(u32, u32, u16), ApiError>) {
        let params = PublishParams::read(&Query::new(query), &SHIPPED.job);
        let outcome = outcome.map(|(delay_seconds, ttl_seconds, tries)| PublishParams {
            delay_seconds,
            ttl_seconds,
            tries,
        });
        assert_eq!(params, outcome, "{query}");
    }

    #[test]
    fn the_first_wrong_parameter_decides() {
        expect("", Ok((0, 86400, 1)));
        expect("delay=5&ttl=5&tries=65535", Ok((5, 5, 65535)));
        expect("delay=4294967295&ttl=0", Ok((4_294_967_295, 0, 1)));
        expect("delay=4294967296&ttl=x", Err(ApiError::BadNumber("delay")));
        expect("delay=&ttl=x", Err(ApiError::BadNumber("delay")));
        expect("ttl=-1&tries=0", Err(ApiError::BadNumber("ttl")));
        expect("delay=90000&tries=0", Err(ApiError::TtlShorterThanDelay));
        expect("tries=0", Err(ApiError::NoTries));
        expect("tries=65536", Err(ApiError::BadNumber("tries")));
    }
}
