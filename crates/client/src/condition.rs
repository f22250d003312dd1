//! Conditions of changes: the revision that an entry must have.

use hyper::header::{HeaderValue, IF_MATCH, IF_NONE_MATCH};
use tidegate_core::v1::Precondition;
use tidegate_core::v1::problem::InvalidRequest;

use crate::error::{Error, RepeatSafety};
use crate::transport::HttpCall;

/// Adds the condition of a change to its call.
pub(crate) fn add_condition(
    call: &mut HttpCall,
    condition: Precondition<&str>,
) -> Result<(), Error> {
    let any = HeaderValue::from_static("*");
    let (name, value) = match condition {
        Precondition::None => return Ok(()),
        Precondition::Exists => (IF_MATCH, any),
        Precondition::Missing => (IF_NONE_MATCH, any),
        Precondition::Is(revision) => {
            let etag = HeaderValue::from_str(&format!("\"{revision}\""));
            let etag = etag.map_err(|_| {
                let detail = "has characters that no revision has";
                InvalidRequest::of_field("revision", detail)
            })?;
            (IF_MATCH, etag)
        }
    };
    call.headers.insert(name, value);
    Ok(())
}

/// A repetition of a change that was made would find it made, and fail.
pub(crate) const fn repeat_safety(condition: Precondition<&str>) -> RepeatSafety {
    match condition {
        Precondition::None | Precondition::Exists => RepeatSafety::Repeatable,
        Precondition::Missing | Precondition::Is(_) => RepeatSafety::OnlyIfNotApplied,
    }
}
