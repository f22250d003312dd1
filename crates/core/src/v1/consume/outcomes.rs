//! What became of each lease of an ack, fail, touch or release call.

use serde::{Deserialize, Serialize};

use crate::v1::values::Timestamp;

/// What became of a job that a worker acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum AckItemOutcome {
    /// It is done.
    Done {
        /// Whether its result was dropped, since the server has no memory left.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        result_dropped: bool,
    },
    /// It runs again, since it was replaced while it ran. A result is dropped.
    Rerun,
    /// The lease has expired, and another worker holds the job.
    Lost,
    /// There is no such job any more. A repeated ack has this outcome, too.
    Gone,
}

/// What became of a job whose attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum FailItemOutcome {
    /// It is retried.
    Retry {
        /// When it is due again.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::answer::AnswerTimestamp))]
        run_at: Timestamp,
    },
    /// It is in the dead letter.
    Dead,
    /// It is deleted, since a cancel was requested.
    Cancelled,
    /// It runs again, since it was replaced while it ran.
    Rerun,
    /// The lease has expired, and another worker holds the job.
    Lost,
    /// There is no such job any more.
    Gone,
}

/// What became of a lease that a worker extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TouchItemOutcome {
    /// The worker still holds the job.
    Extended {
        /// When the lease expires, unless it is extended again.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::openapi::answer::AnswerTimestamp))]
        lease_until: Timestamp,
        /// Whether a cancel was requested: the worker should stop, and then fail or release the job.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancel_requested: bool,
    },
    /// The lease has expired, and another worker holds the job.
    Lost,
    /// There is no such job any more.
    Gone,
}

/// What became of a job that a worker gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ReleaseItemOutcome {
    /// It is ready, or delayed. No failure was counted.
    Released,
    /// It is deleted, since a cancel was requested.
    Cancelled,
    /// It runs again, since it was replaced while it ran.
    Rerun,
    /// The lease has expired, and another worker holds the job.
    Lost,
    /// There is no such job any more.
    Gone,
}

/// One outcome per lease of an ack call, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AckAnswer {
    /// The outcomes.
    pub results: Vec<AckItemOutcome>,
}

/// One outcome per lease of a fail call, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailAnswer {
    /// The outcomes.
    pub results: Vec<FailItemOutcome>,
}

/// One outcome per lease of a touch call, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TouchAnswer {
    /// The outcomes.
    pub results: Vec<TouchItemOutcome>,
}

/// One outcome per lease of a release call, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReleaseAnswer {
    /// The outcomes.
    pub results: Vec<ReleaseItemOutcome>,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn round_trip<T: Serialize + DeserializeOwned>(results: &Value) {
        let json = json!({"results": results});
        let answer: T = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&answer).unwrap(), json);
    }

    fn outcomes(names: &str) -> Value {
        names
            .split(' ')
            .map(|name| json!({"outcome": name}))
            .collect()
    }

    #[test]
    fn the_outcomes_of_each_call_are_a_closed_list() {
        let at = "2026-11-21T12:30:00.000Z";
        round_trip::<AckAnswer>(&outcomes("done rerun lost gone"));
        round_trip::<AckAnswer>(&json!([{"outcome": "done", "result_dropped": true}]));
        round_trip::<FailAnswer>(&outcomes("dead cancelled rerun lost gone"));
        round_trip::<FailAnswer>(&json!([{"outcome": "retry", "run_at": at}]));
        round_trip::<TouchAnswer>(&outcomes("lost gone"));
        let extended = json!({"outcome": "extended", "lease_until": at});
        let cancelled = json!({"outcome": "extended", "lease_until": at, "cancel_requested": true});
        round_trip::<TouchAnswer>(&json!([extended, cancelled]));
        round_trip::<ReleaseAnswer>(&outcomes("released cancelled rerun lost gone"));
        let other = json!({"results": outcomes("cancelled")});
        assert!(serde_json::from_value::<AckAnswer>(other).is_err());
    }
}
