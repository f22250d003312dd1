//! The parts of the head of a request: segments of the path, the query, the credential, the encodings of the body.

use std::borrow::Cow;

use axum::http::{HeaderMap, header};
use tidegate_core::v1::input::{QueryPair, is_option_header};
use tidegate_core::v1::problem::ProblemCode;
use tidegate_core::v1::values::JobAttributes;

use super::error::NativeError;
use crate::http::query::{Plus, unescape};

/// The credential in the header `Authorization`; empty if there is none.
pub(super) fn credential(headers: &HeaderMap) -> Result<Cow<'_, str>, NativeError> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok("".into());
    };
    let text = String::from_utf8_lossy(value.as_bytes());
    let (scheme, credential) = text.split_once(' ').unwrap_or((&text, ""));
    if !scheme.eq_ignore_ascii_case("Bearer") || credential.trim().is_empty() {
        let detail = "send the API key as `Authorization: Bearer tg_…`";
        return Err(NativeError::new(ProblemCode::KeyMissing, detail));
    }
    Ok(credential.trim().to_owned().into())
}

/// A segment of the path, decoded.
pub(super) fn decoded(segment: &str) -> Result<String, NativeError> {
    let bytes = unescape(segment, Plus::IsPlus);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| {
        let detail = "the path has an invalid percent-encoding, or is not UTF-8";
        NativeError::new(ProblemCode::InvalidParameter, detail)
    })
}

/// The names and values of a query.
pub(super) fn query_pairs(query: &str) -> Result<Vec<QueryPair<'static>>, NativeError> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((in_query(name)?.into(), in_query(value)?.into()))
        })
        .collect()
}

/// A name or value of the query, decoded.
fn in_query(text: &str) -> Result<String, NativeError> {
    let bytes = unescape(text, Plus::IsSpace);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| {
        let detail = "the query has an invalid percent-encoding, or is not UTF-8";
        NativeError::new(ProblemCode::InvalidParameter, detail)
    })
}

/// Bodies are stored and parsed as they arrive, so compressed ones are refused.
pub(super) fn check_encodings(headers: &HeaderMap) -> Result<(), NativeError> {
    for (name, allowed, code) in [
        (
            header::CONTENT_ENCODING,
            "identity",
            ProblemCode::UnsupportedContentEncoding,
        ),
        (
            header::TRANSFER_ENCODING,
            "chunked",
            ProblemCode::UnsupportedTransferEncoding,
        ),
    ] {
        let values = headers.get_all(&name).iter();
        let mut codings = values
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii);
        let is_allowed =
            |coding: &[u8]| coding.is_empty() || coding.eq_ignore_ascii_case(allowed.as_bytes());
        if !codings.all(is_allowed) {
            return Err(NativeError::of(code).at(name.as_str()));
        }
    }
    Ok(())
}

/// Whether a header has an option or an attribute of a job.
pub(super) fn is_job_header(name: &str) -> bool {
    is_option_header(name) || name.starts_with(JobAttributes::HEADER_PREFIX)
}
