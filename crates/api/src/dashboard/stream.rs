//! Keeps pages up to date: as long as a page is open, its blocks are made once a second, and sent if they have changed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, Instant, sleep};

use super::error::PageError;
use super::page::Page;
use crate::accounts::AdmittedRequest;

const INTERVAL: Duration = Duration::from_secs(1);
/// How long a stream lasts at most. It also ends when accounts or roles are changed. Then the browser opens the next
/// one.
const STREAM_LIMIT: Duration = Duration::from_secs(600);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Serialize)]
struct ChangedBlock<'a> {
    id: &'a str,
    html: &'a str,
}

/// The stream of the blocks of a page, for a request that the accounts admitted. It holds one of the permits.
pub(super) fn answer<F, R>(
    streams: &Arc<Semaphore>,
    admitted: Option<AdmittedRequest>,
    render: F,
) -> Response
where
    F: Fn() -> R + Send + 'static,
    R: Future<Output = Result<Page, PageError>> + Send + 'static,
{
    let Ok(permit) = Arc::clone(streams).try_acquire_owned() else {
        let after = [(header::RETRY_AFTER, "30")];
        let text = "too many pages are kept up to date, load the page again instead\n";
        return (StatusCode::SERVICE_UNAVAILABLE, after, text).into_response();
    };
    let watched = WatchedPage {
        render,
        admitted,
        sent: HashMap::new(),
        trouble: None,
        ends_at: Instant::now() + STREAM_LIMIT,
        _permit: permit,
    };
    let events = stream::unfold(watched, async |mut watched| {
        let events = watched.next().await?;
        Some((events, watched))
    });
    let events =
        events.flat_map(|events| stream::iter(events.into_iter().map(Ok::<_, Infallible>)));
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}

struct WatchedPage<F> {
    render: F,
    /// `None` = it ends at once; the middleware has set it.
    admitted: Option<AdmittedRequest>,
    /// The blocks as they were sent last.
    sent: HashMap<&'static str, String>,
    /// Why the page could not be made last.
    trouble: Option<String>,
    ends_at: Instant,
    _permit: OwnedSemaphorePermit,
}

impl<F, R> WatchedPage<F>
where
    F: Fn() -> R,
    R: Future<Output = Result<Page, PageError>>,
{
    /// The changes of a second, perhaps none; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Vec<Event>> {
        if Instant::now() >= self.ends_at {
            return None;
        }
        sleep(INTERVAL).await;
        if !self
            .admitted
            .as_ref()
            .is_some_and(AdmittedRequest::is_current)
        {
            return None;
        }
        match (self.render)().await {
            Ok(page) => Some(self.changes(page)),
            Err(error) => {
                let message = error.message();
                let is_known = self.trouble.as_ref() == Some(&message);
                self.trouble = Some(message.clone());
                let event = Event::default().event("trouble").data(message);
                Some(if is_known { vec![] } else { vec![event] })
            }
        }
    }

    fn changes(&mut self, page: Page) -> Vec<Event> {
        let mut events = Vec::new();
        if self.trouble.take().is_some() || self.sent.is_empty() {
            events.push(Event::default().event("up-to-date").data("-"));
        }
        for block in page.blocks.into_iter().filter(|block| block.is_live) {
            let html = block.html.into_string();
            if self.sent.get(block.id) == Some(&html) {
                continue;
            }
            let changed = ChangedBlock {
                id: block.id,
                html: &html,
            };
            // Texts are always valid JSON.
            events.extend(Event::default().event("block").json_data(changed));
            self.sent.insert(block.id, html);
        }
        events
    }
}
