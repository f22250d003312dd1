//! The stored text of a policy: a version, and the fields that differ from the defaults, such as
//! `1 lease_ms=30000 delays_ms=1000,5000 paused max_jobs=1000`. Growing delays are `growing=FIRST_MS,FACTOR,MAX_MS`.

use std::fmt;
use std::str::FromStr;

use super::bounds::UnreadablePolicy;
use super::fields::Policy;
use crate::extension::RetrySteps;
use crate::v1::values::Timestamp;

/// The version of the text. It changes when a field gets another meaning. A new field needs none: a process that does
/// not know a field cannot read the policy, and applies no part of it.
const VERSION: &str = "1";

/// The fields that differ from the defaults, with the version in front of them.
impl fmt::Display for Policy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        out.write_str(VERSION)?;
        let mut number = |name, value: u64, default: u64| match value == default {
            true => Ok(()),
            false => write!(out, " {name}={value}"),
        };
        number("lease_ms", self.lease_ms, default.lease_ms)?;
        number("retain_ms", self.retain_ms, default.retain_ms)?;
        let (retry, of_default) = (&self.retry, &default.retry);
        let jitter = (
            retry.delays.jitter_permille,
            of_default.delays.jitter_permille,
        );
        number("jitter_permille", jitter.0.into(), jitter.1.into())?;
        let attempts = (retry.max_attempts, of_default.max_attempts);
        number("max_attempts", attempts.0.into(), attempts.1.into())?;
        if retry.delays.steps != of_default.delays.steps {
            write_steps(out, &retry.delays.steps)?;
        }
        match (self.paused, self.paused_until) {
            (false, _) => {}
            (true, None) => out.write_str(" paused")?,
            (true, Some(end)) => write!(out, " paused_until={}", end.as_ms())?,
        }
        if self.closed {
            out.write_str(" closed")?;
        }
        if let Some(jobs) = self.max_jobs {
            write!(out, " max_jobs={jobs}")?;
        }
        if let Some(jobs) = self.max_running {
            write!(out, " max_running={jobs}")?;
        }
        if let Some(jobs) = self.groups.max_running {
            write!(out, " group_max_running={jobs}")?;
        }
        if let Some(rate) = self.rate {
            write!(out, " rate={rate}")?;
        }
        if let Some(limit) = &self.limit {
            write!(out, " limit={limit}")?;
        }
        match self.keep_dead_ms {
            Some(kept_ms) => write!(out, " keep_dead_ms={kept_ms}"),
            None => Ok(()),
        }
    }
}

fn write_steps(out: &mut fmt::Formatter<'_>, steps: &RetrySteps) -> fmt::Result {
    match steps {
        RetrySteps::Listed(delays) => {
            let delays: Vec<String> = delays.iter().map(u64::to_string).collect();
            write!(out, " delays_ms={}", delays.join(","))
        }
        RetrySteps::Growing {
            first_ms,
            factor,
            max_ms,
        } => write!(out, " growing={first_ms},{factor},{max_ms}"),
    }
}

/// Reads the text that [`fmt::Display`] writes.
impl FromStr for Policy {
    type Err = UnreadablePolicy;

    fn from_str(text: &str) -> Result<Self, UnreadablePolicy> {
        let mut words = text.split(' ');
        if words.next() != Some(VERSION) {
            return Err(UnreadablePolicy);
        }
        let mut policy = Self::default();
        for word in words {
            policy.read_field(word).ok_or(UnreadablePolicy)?;
        }
        policy.check().map_err(|_| UnreadablePolicy)?;
        // Each policy has one text, so a field that occurs twice, or has its default, is damage.
        match policy.to_string() == text {
            true => Ok(policy),
            false => Err(UnreadablePolicy),
        }
    }
}

impl Policy {
    fn read_field(&mut self, word: &str) -> Option<()> {
        match word.split_once('=') {
            None if word == "paused" => self.paused = true,
            None if word == "closed" => self.closed = true,
            Some(("lease_ms", value)) => self.lease_ms = value.parse().ok()?,
            Some(("retain_ms", value)) => self.retain_ms = value.parse().ok()?,
            Some(("jitter_permille", value)) => {
                self.retry.delays.jitter_permille = value.parse().ok()?
            }
            Some(("max_attempts", value)) => self.retry.max_attempts = value.parse().ok()?,
            Some(("delays_ms", value)) => {
                let delays = value.split(',').map(str::parse);
                let delays = delays.collect::<Result<_, _>>().ok()?;
                self.retry.delays.steps = RetrySteps::Listed(delays);
            }
            Some(("growing", value)) => {
                let (first, rest) = value.split_once(',')?;
                let (factor, max) = rest.split_once(',')?;
                self.retry.delays.steps = RetrySteps::Growing {
                    first_ms: first.parse().ok()?,
                    factor: factor.parse().ok()?,
                    max_ms: max.parse().ok()?,
                };
            }
            Some(("paused_until", value)) => {
                self.paused = true;
                self.paused_until = Some(Timestamp::saturating(value.parse().ok()?));
            }
            Some(("max_jobs", value)) => self.max_jobs = Some(value.parse().ok()?),
            Some(("max_running", value)) => self.max_running = Some(value.parse().ok()?),
            Some(("group_max_running", value)) => {
                self.groups.max_running = Some(value.parse().ok()?)
            }
            Some(("rate", value)) => self.rate = Some(value.parse().ok()?),
            Some(("limit", value)) => self.limit = Some(value.parse().ok()?),
            Some(("keep_dead_ms", value)) => self.keep_dead_ms = Some(value.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::groups::GroupPolicy;
    use super::super::rate::Rate;
    use super::super::retry::RetryPolicy;
    use super::*;
    use crate::extension::RetryDelays;
    use crate::limits::{
        LEASE_MS_MAX, MAX_JOBS_MAX, MAX_RUNNING_MAX, RATE_JOBS_MAX, RATE_PER_MS_MAX,
        RATE_PER_MS_MIN, RETAIN_MS_MAX,
    };

    fn steps() -> impl Strategy<Value = RetrySteps> {
        let listed = prop::collection::vec(0..100_000u64, 1..=16);
        let growing = (1..100_000u64, 1.0..1000.0, 0..100_000u64);
        prop_oneof![
            listed.prop_map(RetrySteps::Listed),
            growing.prop_map(|(first_ms, factor, more_ms)| RetrySteps::Growing {
                first_ms,
                factor,
                max_ms: first_ms + more_ms,
            })
        ]
    }

    fn policies() -> impl Strategy<Value = Policy> {
        let retry = (steps(), 0..=1000u16, 1..=4095u16);
        let retry = retry.prop_map(|(steps, jitter_permille, max_attempts)| RetryPolicy {
            delays: RetryDelays {
                steps,
                jitter_permille,
            },
            max_attempts,
        });
        let retry = prop_oneof![Just(RetryPolicy::default()), retry];
        let pause = prop_oneof![
            Just((false, None)),
            Just((true, None)),
            (1..1u64 << 44).prop_map(|end_ms| (true, Some(Timestamp::saturating(end_ms))))
        ];
        let lease_ms = prop_oneof![Just(60_000), 100..=LEASE_MS_MAX];
        let retain_ms = prop_oneof![Just(0), 0..=RETAIN_MS_MAX];
        let max_jobs = prop::option::of(1..=MAX_JOBS_MAX);
        let max_running = prop::option::of(1..=MAX_RUNNING_MAX);
        let group_max_running = prop::option::of(1..=MAX_RUNNING_MAX);
        let rate = (1..=RATE_JOBS_MAX, RATE_PER_MS_MIN..=RATE_PER_MS_MAX);
        let rate = prop::option::of(rate.prop_map(|(jobs, per_ms)| Rate { jobs, per_ms }));
        let limit = prop::option::of("[A-Za-z0-9_-]{1,64}".prop_map(|name| name.parse().unwrap()));
        let keep_dead_ms = prop::option::of(1000..1u64 << 44);
        let all = (
            lease_ms,
            retry,
            retain_ms,
            pause,
            any::<bool>(),
            (max_jobs, max_running, group_max_running, rate, limit),
            keep_dead_ms,
        );
        all.prop_map(
            |(
                lease_ms,
                retry,
                retain_ms,
                (paused, paused_until),
                closed,
                (max_jobs, max_running, group_max_running, rate, limit),
                keep_dead_ms,
            )| {
                Policy {
                    lease_ms,
                    retry,
                    retain_ms,
                    paused,
                    paused_until,
                    closed,
                    max_jobs,
                    max_running,
                    groups: GroupPolicy {
                        max_running: group_max_running,
                    },
                    rate,
                    limit,
                    keep_dead_ms,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_policy_round_trips_through_its_text(policy in policies()) {
            prop_assert_eq!(policy.to_string().parse(), Ok(policy));
        }

        #[test]
        fn a_damaged_text_is_rejected_or_the_text_of_another_policy(
            policy in policies(), at: prop::sample::Index, byte in b' '..=b'z',
        ) {
            let mut text = policy.to_string().into_bytes();
            let at = at.index(text.len());
            text[at] = byte;
            let text = String::from_utf8(text).unwrap();
            if let Ok(read) = text.parse::<Policy>() {
                prop_assert_eq!(read.to_string(), text);
                prop_assert_eq!(read.check(), Ok(()));
            }
        }
    }

    #[test]
    fn only_what_differs_from_the_defaults_is_in_the_text() {
        assert_eq!(Policy::default().to_string(), "1");
        let text = "1 lease_ms=30000 delays_ms=1000,5000 paused max_jobs=1000";
        let policy: Policy = text.parse().unwrap();
        assert_eq!(
            policy.retry.delays.steps,
            RetrySteps::Listed(vec![1000, 5000])
        );
        assert_eq!(policy.max_jobs, Some(1000));
        assert_eq!(policy.to_string(), text);
    }

    #[test]
    fn texts_of_no_policy_are_rejected() {
        for text in [
            "",
            "2",
            "2 paused",
            "1 ",
            "1 paused paused",
            "1 paused paused_until=5",
            "1 lease_ms=60000",
            "1 lease_ms=1",
            "1 lease_ms=-1",
            "1 max_jobs=0",
            "1 max_jobs=99999999999999999999999",
            "1 max_running=0",
            "1 max_running=5 max_jobs=5",
            "1 group_max_running=0",
            "1 rate=0,1000",
            "1 rate=100",
            "1 limit=",
            "1 limit=a/b",
            "1 unknown=5",
            "1 closed=1",
            "1 delays_ms=",
            "1 growing=1000,2,3600000",
            "1 growing=1000,1.10,3600000",
            "1 growing=1000,NaN,3600000",
            "1 growing=1000,0.5,3600000",
            "1 growing=1000,2,999",
            "1 growing=0,2,999",
            "1 growing=1000,2",
            "paused",
        ] {
            assert_eq!(text.parse::<Policy>(), Err(UnreadablePolicy), "{text}");
        }
    }
}
