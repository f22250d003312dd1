//! Parses answers without copies.

use serde::Deserialize;

use crate::error::LoadgenError;

/// Parses a body of JSON. `doing` names the request in errors.
pub(super) fn parse<'a, T: Deserialize<'a>>(
    doing: &str,
    body: &'a [u8],
) -> Result<T, LoadgenError> {
    serde_json::from_slice(body).map_err(|_| LoadgenError::unexpected(doing, 200, body))
}
