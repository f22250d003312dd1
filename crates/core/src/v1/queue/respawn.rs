//! Bringing dead jobs back.

use serde::{Deserialize, Serialize};

use crate::limits::ConfigurableLimits;
use crate::v1::input::CheckedRequest;
use crate::v1::problem::InvalidRequest;
use crate::v1::values::JobsPerSecond;

/// Which dead jobs of a queue come back, and when. The oldest come first.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Respawn {
    /// At most how many. By default all.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub limit: Option<u64>,
    /// How many become due each second: they become delayed jobs with evenly spaced due times. By default all are ready
    /// at once.
    pub rate_per_second: Option<JobsPerSecond>,
}

impl CheckedRequest for Respawn {
    fn check(&self, _: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        match self.limit {
            Some(0) => Err(InvalidRequest::of_field(
                "limit",
                "limit must be at least 1; leave it out to bring all dead jobs back",
            )),
            _ => Ok(()),
        }
    }
}

/// The result of a respawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RespawnOutcome {
    /// The jobs have all their attempts again.
    Respawned,
}

/// How many jobs came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RespawnAnswer {
    /// The result of the respawn.
    pub outcome: RespawnOutcome,
    /// The number of jobs.
    pub respawned: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::v1::input::read_body;

    #[test]
    fn all_dead_jobs_come_back_at_once_unless_the_body_says_otherwise() {
        let read =
            |body: &str| read_body::<Respawn>(body.as_bytes(), &ConfigurableLimits::default());
        assert_eq!(read("{}").unwrap(), Respawn::default());
        let some = read(r#"{"limit":5,"rate_per_second":50}"#).unwrap();
        assert_eq!(some.limit, Some(5));
        assert_eq!(some.rate_per_second.map(JobsPerSecond::get), Some(50));
        for body in [
            r#"{"limit":0}"#,
            r#"{"rate_per_second":0}"#,
            r#"{"rate":5}"#,
        ] {
            assert!(read(body).is_err(), "{body}");
        }
        let answer = json!({"outcome": "respawned", "respawned": 7});
        let read: RespawnAnswer = serde_json::from_value(answer.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), answer);
    }
}
