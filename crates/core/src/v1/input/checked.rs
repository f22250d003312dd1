//! What all requests have in common.

use serde::de::DeserializeOwned;

use crate::limits::ConfigurableLimits;
use crate::v1::problem::InvalidRequest;

/// The body or query of a request. Unknown fields are rejected when it is read; what depends on several fields or on
/// the settings of a server is checked here.
pub trait CheckedRequest: DeserializeOwned {
    /// Checks what the types of the fields alone do not.
    ///
    /// # Errors
    /// The problem code, the field, and a sentence that says what to do. Nothing has been changed.
    fn check(&self, limits: &ConfigurableLimits) -> Result<(), InvalidRequest>;
}
