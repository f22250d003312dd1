//! Defaults that several kinds of sinks have.

use crate::v1::values::DurationMs;

pub(super) const fn default_time_limit() -> DurationMs {
    DurationMs::saturating(10_000)
}
