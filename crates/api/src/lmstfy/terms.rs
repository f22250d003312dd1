//! The parameters that every publish has.

use bytes::Bytes;
use tidegate_core::NewJob;

use super::attributes::Extras;
use super::error::Refusal;
use super::query::Query;
use crate::config::JobDefaults;

/// When a job is consumable, for how long it is kept and how often it may be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    delay_seconds: u32,
    ttl_seconds: u32,
    tries: u16,
}

impl Terms {
    /// Reads the parameters of a publish.
    ///
    /// # Errors
    /// The first of these that is wrong: delay, ttl, a ttl shorter than the delay, tries.
    pub(crate) fn read(query: &Query<'_>, defaults: &JobDefaults) -> Result<Self, Refusal> {
        let delay_seconds = query.number("delay", defaults.delay_seconds)?;
        let ttl_seconds = query.number("ttl", defaults.ttl_seconds)?;
        if ttl_seconds > 0 && ttl_seconds < delay_seconds {
            return Err(Refusal::TtlShorterThanDelay);
        }
        let tries = query.number("tries", defaults.tries)?;
        if tries == 0 {
            return Err(Refusal::NoTries);
        }
        Ok(Self {
            delay_seconds,
            ttl_seconds,
            tries,
        })
    }

    /// A job on these terms.
    pub(crate) fn job(self, body: Bytes, extras: &Extras) -> NewJob {
        NewJob {
            body,
            attributes: extras.attributes.clone(),
            delay_ms: u64::from(self.delay_seconds) * 1000,
            ttl_ms: u64::from(self.ttl_seconds) * 1000,
            tries: self.tries,
            versioned_id: extras.versioned_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(query: &str, outcome: Result<(u32, u32, u16), Refusal>) {
        let terms = Terms::read(&Query::new(query), &JobDefaults::SHIPPED);
        let outcome = outcome.map(|(delay_seconds, ttl_seconds, tries)| Terms {
            delay_seconds,
            ttl_seconds,
            tries,
        });
        assert_eq!(terms, outcome, "{query}");
    }

    #[test]
    fn the_first_wrong_parameter_decides() {
        expect("", Ok((0, 86400, 1)));
        expect("delay=5&ttl=5&tries=65535", Ok((5, 5, 65535)));
        expect("delay=4294967295&ttl=0", Ok((4_294_967_295, 0, 1)));
        expect("delay=4294967296&ttl=x", Err(Refusal::BadNumber("delay")));
        expect("delay=&ttl=x", Err(Refusal::BadNumber("delay")));
        expect("ttl=-1&tries=0", Err(Refusal::BadNumber("ttl")));
        expect("delay=90000&tries=0", Err(Refusal::TtlShorterThanDelay));
        expect("tries=0", Err(Refusal::NoTries));
        expect("tries=65536", Err(Refusal::BadNumber("tries")));
    }
}
