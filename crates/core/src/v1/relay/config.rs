//! The settings of a relay.

use serde::{Deserialize, Serialize};

use super::sink::RelaySinkConfig;
use super::source::RelaySourceConfig;
use crate::v1::input::object;
use crate::v1::values::DurationMs;

/// A source, a sink, and how jobs flow between them. Absent fields have their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RelayConfig {
    /// Where the jobs come from.
    #[serde(deserialize_with = "object")]
    pub source: RelaySourceConfig,
    /// Where they go.
    #[serde(deserialize_with = "object")]
    pub sink: RelaySinkConfig,
    /// Whether no jobs are reserved: `false` by default.
    #[serde(default)]
    pub paused: bool,
    /// Jobs that are held at a time: 1024 by default.
    #[serde(default = "default_concurrency")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10_000))]
    pub concurrency: usize,
    /// Jobs that one call to the sink delivers: 256 by default.
    #[serde(default = "default_batch")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 256))]
    pub batch: usize,
    /// How long a job is held: 1 min by default, from 1 s to 1 h. At least twice the time limit of the sink, and 5 s
    /// more.
    #[serde(default = "default_lease")]
    pub lease: DurationMs,
    /// Calls in a row to an unavailable sink after which no more jobs are reserved: 5 by default.
    #[serde(default = "default_breaker_failures")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub breaker_failures: u32,
    /// How long until one job is tried then: 1 s by default, from 10 ms to 1 h. Doubled each time, up to the maximum.
    #[serde(default = "default_breaker_pause")]
    pub breaker_pause: DurationMs,
    /// The longest of these pauses: 1 min by default.
    #[serde(default = "default_breaker_pause_max")]
    pub breaker_pause_max: DurationMs,
}

const fn default_concurrency() -> usize {
    1024
}

const fn default_batch() -> usize {
    256
}

const fn default_lease() -> DurationMs {
    DurationMs::saturating(60_000)
}

const fn default_breaker_failures() -> u32 {
    5
}

const fn default_breaker_pause() -> DurationMs {
    DurationMs::saturating(1_000)
}

const fn default_breaker_pause_max() -> DurationMs {
    DurationMs::saturating(60_000)
}
