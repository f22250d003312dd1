//! Whether a relay runs.

use serde::{Deserialize, Serialize};

use crate::v1::values::{ErrorText, Timestamp};

/// Whether a relay runs. A `tidegate-relayd` reports `running`, `failing` and `refused`, from the best state to the
/// worst. The API sets `paused` and `unserved`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RelayHealth {
    /// It runs, and its last calls to source and sink succeeded, if there were any.
    Running,
    /// It runs, and its last call to the source or the sink failed, or the sink took none of the jobs.
    Failing,
    /// It does not run: the settings of `tidegate-relayd` do not allow it, or it cannot work as it is set.
    Refused,
    /// It does not run, since it is set to `paused`.
    Paused,
    /// No `tidegate-relayd` has reported it in the last 15 s.
    Unserved,
}

/// The last error of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LastRelayError {
    /// The failed operation and its error.
    pub text: ErrorText,
    /// When, on the clock of `tidegate-relayd`.
    pub at: Timestamp,
}

/// The state of a relay, as `tidegate-relayd` reports it. If several processes report a relay, the worst state counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RelayStatus {
    /// Whether it runs.
    pub state: RelayHealth,
    /// Since when, on the clock of `tidegate-relayd`. For `unserved` the time of the last report, `null` if there was
    /// none since the relay was set; for `paused` `null`.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub since: Option<Timestamp>,
    /// The last error, also after it is gone; `null` if there was none since the relay started.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub last_error: Option<LastRelayError>,
}

/// The report of a `tidegate-relayd` about a relay that is set through the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayReport {
    /// The namespace and the name, with a slash between them.
    pub relay: String,
    /// The revision that it runs or refuses.
    pub revision: String,
    /// The state of the relay there.
    pub status: RelayStatus,
}

/// The body of `PUT /relays/reports` on the admin port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayReports {
    /// A random number of the process.
    pub process: u64,
    pub items: Vec<RelayReport>,
}
