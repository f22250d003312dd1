//! The checks of requests.

use serde::de::DeserializeOwned;

use crate::limits::ConfigurableLimits;
use crate::v1::problem::InvalidRequest;

/// The body or query of a request. Unknown fields are rejected when it is read. Rules about several fields, or about
/// the settings of a server, are checked here.
pub trait CheckedRequest: DeserializeOwned {
    /// Checks the rules that the types of the fields do not express: by default there are none.
    ///
    /// # Errors
    /// The problem code, the field, and a sentence with the remedy. Nothing has been changed.
    fn check(&self, _limits: &ConfigurableLimits) -> Result<(), InvalidRequest> {
        Ok(())
    }
}
