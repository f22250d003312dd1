//! Queries, and options in headers.

use std::borrow::Cow;

use serde::de::value::MapDeserializer;

use super::checked::CheckedRequest;
use super::text_value::TextValue;
use crate::limits::ConfigurableLimits;
use crate::v1::problem::{InvalidRequest, ProblemCode};

/// The name and value of a parameter, decoded.
pub type QueryPair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Reads and checks the parameters of a request.
///
/// # Errors
/// `invalid_parameter` for unknown and repeated parameters; the code of the value for an invalid value; what
/// [`CheckedRequest::check`] finds.
pub fn read_query<T: CheckedRequest>(
    pairs: &[QueryPair<'_>],
    limits: &ConfigurableLimits,
) -> Result<T, InvalidRequest> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (&**name, TextValue(value)));
    let request: T =
        serde_path_to_error::deserialize(MapDeserializer::new(pairs)).map_err(|error| {
            let mut path = error.path().to_string();
            let text = error.into_inner().to_string();
            if let Some(repeated) = text.strip_prefix("duplicate field ") {
                path = repeated.trim_matches('`').to_owned();
            }
            let text = match text.split_once(" field ") {
                Some(("unknown", rest)) if !path.contains('.') => {
                    format!("unknown parameter {rest}")
                }
                Some(("duplicate", rest)) => format!("repeated parameter {rest}"),
                _ => text,
            };
            let invalid = InvalidRequest::from_serde(&text, ProblemCode::InvalidParameter);
            match path.as_str() {
                "." => invalid,
                path => invalid.at(path),
            }
        })?;
    request.check(limits)?;
    Ok(request)
}
