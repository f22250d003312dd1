//! Versions of things in the headers `ETag` and `If-Match`.

use std::fmt::Display;
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderValue, header};

/// `If-Match` is not the `ETag` of such a thing, or has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAnETag;

/// The version that `If-Match` requires; `None` = any.
///
/// # Errors
/// It is not a version in quotes, and not `*`.
pub(crate) fn if_match<T: FromStr>(headers: &HeaderMap) -> Result<Option<T>, NotAnETag> {
    let Some(value) = headers.get(header::IF_MATCH) else {
        return Ok(None);
    };
    let value = value.to_str().map_err(|_| NotAnETag)?.trim();
    if value == "*" {
        return Ok(None);
    }
    let version = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let version = version.and_then(|version| version.parse().ok());
    version.map(Some).ok_or(NotAnETag)
}

/// Adds the `ETag` of a version to an answer.
pub(crate) fn set(headers: &mut HeaderMap, version: impl Display) {
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        headers.insert(header::ETAG, etag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_match_is_one_etag() {
        let expected = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_MATCH, value.parse().unwrap());
            if_match::<u32>(&headers)
        };
        assert_eq!(if_match::<u32>(&HeaderMap::new()), Ok(None));
        assert_eq!(expected("*"), Ok(None));
        assert_eq!(expected("\"17\""), Ok(Some(17)));
        for wrong in ["", "0", "\"", "\"x\"", "W/\"0\"", "\"0\", \"1\""] {
            assert_eq!(expected(wrong), Err(NotAnETag), "{wrong}");
        }
    }
}
