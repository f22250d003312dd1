//! A durability that was not reached.

use tidegate_core::Durability;

/// Jobs are stored, but the requested durability was not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("durability {wanted} was requested, {reached} was confirmed: {reason}")]
pub struct DurabilityError {
    /// The requested durability.
    pub wanted: Durability,
    /// The confirmed durability.
    pub reached: Durability,
    /// Why more was not confirmed.
    pub reason: String,
}
