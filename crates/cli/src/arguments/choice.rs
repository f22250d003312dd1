//! Values from a closed list.

use serde::de::DeserializeOwned;

/// Reads a value as the API writes it.
pub(crate) fn choice<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}
