//! Changes of entries of tables, such as policies, relays and schedules, that depend on the revision of the stored entry.

use axum::http::header;
use tidegate_core::v1::Precondition;
use tidegate_core::v1::problem::InvalidRequest;
use tidegate_store::TableRevision;

use super::error::NativeError;
use super::native_request::NativeRequest;
use crate::http::etag::precondition;

/// The condition in the headers of a change. `entry` is the kind of the changed entry, such as "relay".
pub(super) fn condition(
    request: &NativeRequest,
    entry: &str,
) -> Result<Precondition<TableRevision>, NativeError> {
    precondition(&request.headers).map_err(|_| {
        let is_none = request.headers.contains_key(header::IF_NONE_MATCH);
        let field = if is_none { "if-none-match" } else { "if-match" };
        let detail = format!(
            "If-Match should be the ETag of the {entry}, in quotes, or *; If-None-Match should be *; send one of them"
        );
        InvalidRequest::of_field(field, detail).into()
    })
}
