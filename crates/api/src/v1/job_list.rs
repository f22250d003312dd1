//! `GET /v1/NAMESPACE/queues/QUEUE/jobs` lists the jobs of a queue; `POST …/jobs/act` acts on all that match a filter.

use std::str::FromStr;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::v1::Page;
use tidegate_core::v1::job::{ActAnswer, ActBody, JobFilter};
use tidegate_core::v1::problem::InvalidRequest;
use tidegate_core::v1::values::CursorText;

use super::answer::{json_answer, page_answer};
use super::error::NativeError;
use super::job_details::listed_details;
use super::native_request::NativeRequest;
use crate::http::unread;

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let queue = request.queue()?;
    let (query, filter) = request.read_filtered_list::<JobFilter>()?;
    let cursor = read_cursor(query.cursor.as_ref())?;
    let limit = usize::from(query.limit.get());
    let share = unread::share_of_page(request.unread())?;
    let page = request
        .pool()
        .list_jobs(&queue, &filter, cursor, limit)
        .await?;
    let items = page
        .jobs
        .iter()
        .map(|listed| listed_details(request.pool(), &queue, listed));
    let answer = Page {
        items: items.collect(),
        next: write_cursor(page.next.as_ref())?,
    };
    Ok(page_answer(&answer, share))
}

pub(super) async fn act(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let queue = request.queue()?;
    let body: ActBody = request.read_json().await?;
    let cursor = read_cursor(body.cursor.as_ref())?;
    let page = request.pool().act(&queue, &body, cursor).await?;
    let answer = ActAnswer {
        matched: page.matched,
        changed: page.changed,
        next: write_cursor(page.next.as_ref())?,
        wait_ms: u64::try_from(page.wait.as_millis()).unwrap_or(u64::MAX),
    };
    Ok(json_answer(StatusCode::OK, &answer))
}

/// Where a list or an action continues; at its begin without a cursor.
fn read_cursor<T: FromStr + Default>(cursor: Option<&CursorText>) -> Result<T, NativeError> {
    let Some(cursor) = cursor else {
        return Ok(T::default());
    };
    cursor.as_str().parse().map_err(|_| {
        let detail = "send the cursor as `next` of the page before";
        InvalidRequest::of_field("cursor", detail).into()
    })
}

fn write_cursor(next: Option<&impl ToString>) -> Result<Option<CursorText>, NativeError> {
    let next = next.map(|next| next.to_string().try_into());
    next.transpose().map_err(|_| NativeError::internal())
}
