//! The cold tier, for operators.

use serde::{Deserialize, Serialize};

use super::values::Timestamp;

/// The cold tier of a pool, as `GET /cold` of the admin port shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdTierView {
    pub pool: String,
    /// Why the API cannot read the object store; `None` = it can.
    #[serde(default)]
    pub problem: Option<String>,
    /// Payloads that are in the object store only, also of jobs that are gone.
    pub frozen_payloads: u64,
    /// Payloads that are back. They are deleted when their partition has been back for `cold_keep`.
    pub thawed_payloads: u64,
    pub segments: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// When a pump counted them; `None` = no pump has done so yet.
    #[serde(default)]
    pub counted_at: Option<Timestamp>,
    /// The payloads of all jobs that are due before are back; `None` = not in all buckets.
    #[serde(default)]
    pub back_until: Option<Timestamp>,
}
