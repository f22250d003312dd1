//! Answers: JSON, or the bytes of a job.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde::Serialize;
use tidegate_core::v1::values::{ContentType, CursorText};
use tidegate_daemon::ByteShare;

use super::error::NativeError;
use crate::http::unread;

/// A page ends before it has more than this many bytes.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// The content type of answers.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) fn json_answer(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut response = Response::new(Body::from(serde_json::to_vec(value).unwrap_or_default()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// The status of the answer to a `PUT` that has created or replaced an entry.
pub(super) const fn set_status(was_there: bool) -> StatusCode {
    match was_there {
        false => StatusCode::CREATED,
        true => StatusCode::OK,
    }
}

/// The items of a page: up to `limit`, and up to 1 MiB as JSON, at least one. Returns them, and whether others follow.
pub(super) fn page_of<T: Serialize>(
    items: impl Iterator<Item = T>,
    limit: usize,
) -> (Vec<T>, bool) {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for item in items {
        bytes += serde_json::to_vec(&item).map_or(0, |json| json.len());
        if page.len() == limit || bytes > PAGE_BYTES_MAX && !page.is_empty() {
            return (page, true);
        }
        page.push(item);
    }
    (page, false)
}

/// The same with the cursor of the next page, which `cursor_of` makes from the last item; `None` at the end of the
/// list.
pub(super) fn page_with_cursor<T: Serialize>(
    items: impl Iterator<Item = T>,
    limit: usize,
    cursor_of: impl FnOnce(&T) -> String,
) -> Result<(Vec<T>, Option<CursorText>), NativeError> {
    let (items, has_more) = page_of(items, limit);
    let last = items.last().filter(|_| has_more);
    let next = last.map(|last| cursor_of(last).try_into()).transpose();
    let next = next.map_err(|_| NativeError::internal())?;
    Ok((items, next))
}

/// An answer with a page of a list. `share` is the memory that making the page has taken.
pub(super) fn page_answer(page: &impl Serialize, share: ByteShare) -> Response<Body> {
    unread::with_share(json_answer(StatusCode::OK, page), share)
}

/// An answer whose body is a payload or a result.
pub(super) fn bytes_answer(
    content_type: &ContentType,
    bytes: Bytes,
) -> Result<Response<Body>, NativeError> {
    let content_type = HeaderValue::try_from(content_type.to_string());
    let content_type = content_type.map_err(|_| NativeError::internal())?;
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    // The bytes are shown as they are, and must not run as a page of this origin.
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox"),
    );
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_limit_or_at_a_mebibyte() {
        let items = |count: usize, bytes: usize| (0..count).map(move |_| "x".repeat(bytes));
        let page = |count, bytes, limit| {
            let (page, has_more) = page_of(items(count, bytes), limit);
            (page.len(), has_more)
        };
        assert_eq!(page(3, 10, 3), (3, false));
        assert_eq!(page(4, 10, 3), (3, true));
        assert_eq!(page(0, 10, 3), (0, false));
        assert_eq!(page(100, 100_000, 100), (10, true));
        assert_eq!(page(2, 2_000_000, 100), (1, true), "at least one");
    }
}
