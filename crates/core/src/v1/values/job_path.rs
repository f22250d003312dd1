//! How a path names a job.

use std::fmt;

use super::text::JobKey;
use crate::job_id::JobId;
use crate::v1::problem::InvalidValue;

/// An error shows no longer key.
const SHOWN_KEY_BYTES_MAX: usize = 64;

/// How a path names a job: by its id, or by its key as `key:KEY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPath {
    /// Any job.
    Id(JobId),
    Key(JobKey),
}

impl JobPath {
    /// The segment of a path that stands for the key in the query: `jobs/-?key=…`.
    pub const KEY_IN_QUERY: &'static str = "-";

    /// Reads a segment of a path and the parameter `key` of the query, both decoded.
    ///
    /// # Errors
    /// The segment is neither an id nor `key:KEY` nor `-` with a key in the query.
    pub fn parse(segment: &str, key_in_query: Option<&str>) -> Result<Self, InvalidValue> {
        match (segment, key_in_query) {
            (Self::KEY_IN_QUERY, Some(key)) => key.parse().map(Self::Key),
            (Self::KEY_IN_QUERY, None) => Err(InvalidValue::new(
                "the path has - for a job: add its key to the query, as ?key=KEY",
            )),
            (_, Some(_)) => Err(InvalidValue::new(
                "the query has a key, but the path names a job; write jobs/-?key=KEY",
            )),
            (segment, None) => match segment.strip_prefix("key:") {
                Some(key) => key.parse().map(Self::Key),
                None => segment
                    .parse()
                    .map(Self::Id)
                    .map_err(|_: InvalidValue| not_an_id(segment)),
            },
        }
    }
}

fn not_an_id(segment: &str) -> InvalidValue {
    let is_short = segment.len() <= SHOWN_KEY_BYTES_MAX;
    // The wire of lmstfy writes a 1 in front of ids of jobs with attributes.
    let of_lmstfy = segment.strip_prefix('1').map(str::parse::<JobId>);
    let hint = match (of_lmstfy, segment.parse::<JobKey>()) {
        (Some(Ok(id)), _) => format!("did you mean {id}?"),
        (_, Ok(key)) if is_short => format!("did you mean key:{key}?"),
        _ => "for a job with a key write key:KEY".to_owned(),
    };
    let what = JobId::RULE.describe();
    InvalidValue::new(format!("the id of a job must be {what}; {hint}"))
}

impl fmt::Display for JobPath {
    /// The text that [`JobPath::parse`] reads, not percent-encoded.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(out),
            Self::Key(key) => write!(out, "key:{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01KAJ0000000000000000000AB";

    #[test]
    fn a_path_names_a_job_by_id_or_key() {
        let id = JobPath::Id(ID.parse().unwrap());
        let key = |text: &str| JobPath::Key(text.parse().unwrap());
        assert_eq!(JobPath::parse(ID, None), Ok(id.clone()));
        assert_eq!(JobPath::parse("key:order-17", None), Ok(key("order-17")));
        assert_eq!(JobPath::parse("key:key:x", None), Ok(key("key:x")));
        assert_eq!(JobPath::parse("-", Some("a/b")), Ok(key("a/b")));
        for path in [id, key("a/b")] {
            assert_eq!(JobPath::parse(&path.to_string(), None), Ok(path));
        }
        for (segment, key, part) in [
            ("-", None, "?key=KEY"),
            (ID, Some("a"), "jobs/-?key=KEY"),
            ("order-17", None, "did you mean key:order-17?"),
            (
                "order-17",
                None,
                "must be 26 characters of upper-case Crockford",
            ),
            (&format!("1{ID}"), None, &format!("did you mean {ID}?")),
            ("key:", None, "the key of a job"),
            ("-", Some(""), "the key of a job"),
        ] {
            let error = JobPath::parse(segment, key).unwrap_err();
            assert!(error.detail.contains(part), "{segment}: {}", error.detail);
        }
    }
}
