//! Versions of things in the headers `ETag` and `If-Match`.

use std::fmt::Display;
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderValue, header};
use tidegate_core::v1::Precondition;

/// `If-Match` is not the `ETag` of such a thing, or has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAnETag;

/// The condition of a request for something that may be missing, in `If-Match` or `If-None-Match`.
///
/// # Errors
/// `If-Match` as in [`if_match`]; `If-None-Match` is not `*`; both are there.
pub(crate) fn precondition<T: FromStr>(headers: &HeaderMap) -> Result<Precondition<T>, NotAnETag> {
    let found = headers.get(header::IF_NONE_MATCH);
    let required = if_match(headers)?;
    match (found, headers.contains_key(header::IF_MATCH), required) {
        (None, false, _) => Ok(Precondition::None),
        (None, true, None) => Ok(Precondition::Exists),
        (None, true, Some(version)) => Ok(Precondition::Is(version)),
        (Some(value), false, _) if value.as_bytes().trim_ascii() == b"*" => {
            Ok(Precondition::Missing)
        }
        (Some(_), _, _) => Err(NotAnETag),
    }
}

/// Whether the client has this version already: `If-None-Match` of a request that changes nothing.
pub(crate) fn is_known(headers: &HeaderMap, version: impl Display) -> bool {
    let etag = format!("\"{version}\"");
    let values = headers.get_all(header::IF_NONE_MATCH).into_iter();
    let mut known = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|it| it.split(','));
    known.any(|known| {
        let known = known.trim();
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag
    })
}

/// The version that `If-Match` requires; `None` = any.
///
/// # Errors
/// It is not a version in quotes, and not `*`.
fn if_match<T: FromStr>(headers: &HeaderMap) -> Result<Option<T>, NotAnETag> {
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

    fn with(fields: &[(header::HeaderName, &str)]) -> HeaderMap {
        let fields = fields.iter();
        fields
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a_precondition_is_one_of_the_two_headers() {
        let of = |fields: &[_]| precondition::<u32>(&with(fields));
        let (is, is_none) = (header::IF_MATCH, header::IF_NONE_MATCH);
        assert_eq!(of(&[]), Ok(Precondition::None));
        assert_eq!(of(&[(is.clone(), "*")]), Ok(Precondition::Exists));
        assert_eq!(of(&[(is.clone(), "\"7\"")]), Ok(Precondition::Is(7)));
        assert_eq!(of(&[(is_none.clone(), "*")]), Ok(Precondition::Missing));
        for wrong in [
            &[(is_none.clone(), "\"7\"")][..],
            &[(is.clone(), "7")],
            &[(is, "*"), (is_none, "*")],
        ] {
            assert_eq!(of(wrong), Err(NotAnETag), "{wrong:?}");
        }
        let holds =
            |condition: Precondition<u32>| [None, Some(&7), Some(&8)].map(|it| condition.holds(it));
        assert_eq!(holds(Precondition::None), [true; 3]);
        assert_eq!(holds(Precondition::Exists), [false, true, true]);
        assert_eq!(holds(Precondition::Is(7)), [false, true, false]);
        assert_eq!(holds(Precondition::Missing), [true, false, false]);
    }

    #[test]
    fn a_known_version_is_in_the_list() {
        for (value, expected) in [
            ("\"7\"", true),
            ("W/\"7\"", true),
            ("\"6\", \"7\"", true),
            ("*", true),
            ("\"77\"", false),
            ("7", false),
            ("", false),
        ] {
            let headers = with(&[(header::IF_NONE_MATCH, value)]);
            assert_eq!(is_known(&headers, 7), expected, "{value}");
        }
        assert!(!is_known(&HeaderMap::new(), 7));
    }
}
