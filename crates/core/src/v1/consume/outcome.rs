//! How an ack, fail, touch or release call ends for each lease.

use serde::{Deserialize, Serialize};

use crate::v1::values::Timestamp;

/// A call of a worker about the leases that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleCall {
    /// The jobs are done.
    Ack,
    /// The attempts failed.
    Fail,
    /// The worker holds the jobs for longer.
    Touch,
    /// The worker gives the jobs back.
    Release,
}

impl SettleCall {
    /// All calls.
    pub const ALL: [Self; 4] = [Self::Ack, Self::Fail, Self::Touch, Self::Release];

    /// Its name, the last part of its path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Fail => "fail",
            Self::Touch => "touch",
            Self::Release => "release",
        }
    }

    /// Whether a lease may have this outcome.
    pub fn can_end_in(self, outcome: &Outcome) -> bool {
        self.outcomes().contains(&outcome.name())
    }

    /// The names of the outcomes that a lease may have.
    #[must_use]
    pub const fn outcomes(self) -> &'static [&'static str] {
        match self {
            Self::Ack => &["done", "rerun", "lost", "gone"],
            Self::Fail => &["retry", "dead", "cancelled", "rerun", "lost", "gone"],
            Self::Touch => &["extended", "lost", "gone"],
            Self::Release => &["cancelled", "rerun", "released", "lost", "gone"],
        }
    }
}

/// The outcome for one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[must_use]
pub enum Outcome {
    /// The job is done.
    Done {
        /// Whether its result was dropped, since the server has no memory left.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        result_dropped: bool,
    },
    /// The job is retried.
    Retry {
        /// When it is due again.
        run_at: Timestamp,
    },
    /// The job is in the dead letter.
    Dead,
    /// The job is deleted, since a cancel was requested.
    Cancelled,
    /// The job runs again, since it was replaced while it ran. A result is dropped.
    Rerun,
    /// The worker still holds the job.
    Extended {
        /// When the lease expires, unless it is extended again.
        lease_until: Timestamp,
        /// Whether a cancel was requested: the worker should stop, and then fail or release the job.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancel_requested: bool,
    },
    /// The job is ready, or delayed. No failure was counted.
    Released,
    /// The lease has expired, and another worker holds the job.
    Lost,
    /// There is no such job any more. A repeated ack has this outcome, too.
    Gone,
}

impl Outcome {
    /// The job is done, with its result if it has one.
    pub const DONE: Self = Self::Done {
        result_dropped: false,
    };

    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettleAnswer {
    /// One outcome for each lease, in the order of the call.
    pub results: Vec<Outcome>,
}

/// How the ends ended that a reserve call reported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettledJobs {
    /// One outcome for each lease of `ack`, in its order.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::openapi::settle::ack_outcomes))]
    pub ack: Vec<Outcome>,
    /// One outcome for each lease of `fail`, in its order.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::openapi::settle::fail_outcomes))]
    pub fail: Vec<Outcome>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const AT: &str = "2026-11-21T12:30:00.000Z";

    #[track_caller]
    fn read(outcome: &Value) -> Outcome {
        let json = json!({"results": [outcome]});
        let answer: SettleAnswer = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&answer).unwrap(), json);
        answer.results[0]
    }

    #[test]
    fn the_outcomes_are_a_closed_list() {
        for outcome in [
            "done",
            "dead",
            "cancelled",
            "rerun",
            "released",
            "lost",
            "gone",
        ] {
            assert_eq!(read(&json!({"outcome": outcome})).name(), outcome);
        }
        for outcome in [
            json!({"outcome": "done", "result_dropped": true}),
            json!({"outcome": "retry", "run_at": AT}),
            json!({"outcome": "extended", "lease_until": AT}),
            json!({"outcome": "extended", "lease_until": AT, "cancel_requested": true}),
        ] {
            assert_eq!(read(&outcome).name(), outcome["outcome"]);
        }
        let other = json!({"results": [{"outcome": "asleep"}]});
        assert!(serde_json::from_value::<SettleAnswer>(other).is_err());
    }

    #[test]
    fn each_call_has_some_of_the_outcomes() {
        assert!(SettleCall::Fail.can_end_in(&Outcome::Cancelled));
        assert!(!SettleCall::Ack.can_end_in(&Outcome::Cancelled));
    }
}
