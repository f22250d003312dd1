//! Bounds of the values of a policy, and the error for a value out of its bounds.

use std::fmt;

use crate::v1::values::DurationMs;

/// A value of a policy is out of its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} should be {bounds}")]
pub struct InvalidPolicy {
    /// The name of the field.
    pub field: &'static str,
    /// The values that it may have.
    pub bounds: String,
}

/// A stored policy that cannot be read: it is damaged, or of a later release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stored policy is damaged, or was written by a later release")]
pub struct UnreadablePolicy;

/// Checks that a value is from `min` to `max`.
pub(super) fn within<T: PartialOrd + fmt::Display>(
    field: &'static str,
    value: T,
    min: T,
    max: T,
) -> Result<(), InvalidPolicy> {
    if min <= value && value <= max {
        return Ok(());
    }
    let bounds = format!("from {min} to {max}");
    Err(InvalidPolicy { field, bounds })
}

/// The same for durations in ms.
pub(super) fn within_ms(
    field: &'static str,
    value_ms: u64,
    min_ms: u64,
    max_ms: u64,
) -> Result<(), InvalidPolicy> {
    let [value, min, max] = [value_ms, min_ms, max_ms].map(DurationMs::saturating);
    within(field, value, min, max)
}
