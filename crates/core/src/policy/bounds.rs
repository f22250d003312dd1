//! Bounds of the values of a policy.

/// A value of a policy is out of its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} should be {bounds}")]
pub struct InvalidPolicy {
    /// The name of the field.
    pub field: &'static str,
    /// The values that it may have.
    pub bounds: String,
}

/// Checks that a value is from `min` to `max`.
pub(super) fn within(
    field: &'static str,
    value: u64,
    min: u64,
    max: u64,
) -> Result<(), InvalidPolicy> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let bounds = format!("from {min} to {max}");
    Err(InvalidPolicy { field, bounds })
}
