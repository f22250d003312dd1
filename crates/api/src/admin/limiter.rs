//! A rate limit in the JSON of lmstfy.

use serde::{Deserialize, Serialize};
use tidegate_store::RateLimit;

/// A limit in JSON. Absent fields are 0. The fields have the order of lmstfy, which is not alphabetical here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LimitBody {
    pub(super) read: i64,
    pub(super) write: i64,
    pub(super) interval: i64,
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
