//! Bounds the memory for answers that clients have not read yet.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::{Body, HttpBody};
use axum::http::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tidegate_daemon::metrics::OVER_BUDGET;
use tidegate_daemon::{BudgetExhausted, ByteBudget, ByteShare};

use tidegate_engine::Delivery;

/// Answers up to this length are not counted, so that clients that do not read large answers do not affect consumers of
/// small jobs.
const UNCOUNTED_BYTES: usize = 64 * 1024;

/// Memory for making a page of a list: its items, the items of the last call to Redis, and the JSON of both. A page has
/// up to 1 MiB.
const PAGE_WORK_BYTES: usize = 4 * 1024 * 1024;

/// Keeps the jobs that fit into the budget, at least one, and releases the others. Returns the share of the answer.
pub(crate) fn fit_to_budget(delivery: &mut Delivery, budget: &ByteBudget) -> ByteShare {
    let mut share = budget.share();
    let mut bytes = 0;
    let mut kept = 0;
    for reserved in delivery.jobs() {
        bytes += answer_bytes(reserved.job.body.len());
        let has_room = bytes <= UNCOUNTED_BYTES || share.grow_to(bytes).is_ok();
        if !has_room && kept > 0 {
            OVER_BUDGET.with_label_values(&["answer"]).inc();
            break;
        }
        kept += 1;
    }
    delivery.truncate(kept);
    share
}

/// Bytes of a body and of its base64 in the answer: both exist while the answer is made.
const fn answer_bytes(body_bytes: usize) -> usize {
    body_bytes + body_bytes.div_ceil(3) * 4
}

/// Takes the memory for making a page of a list.
///
/// # Errors
/// The budget has too few bytes left.
pub(crate) fn share_of_page(budget: &ByteBudget) -> Result<ByteShare, BudgetExhausted> {
    take(budget, PAGE_WORK_BYTES)
}

/// Takes a share. If no other answer has one, it may be larger than the budget.
fn take(budget: &ByteBudget, bytes: usize) -> Result<ByteShare, BudgetExhausted> {
    let mut share = budget.share();
    match share.grow_to(bytes) {
        Ok(()) => {}
        Err(_) if budget.used() == 0 => share.grow_beyond(bytes),
        Err(exhausted) => {
            OVER_BUDGET.with_label_values(&["answer"]).inc();
            return Err(exhausted);
        }
    }
    Ok(share)
}

/// The share of the budget that an answer has already.
#[derive(Clone)]
struct AnswerShare(Arc<ByteShare>);

/// The answer with the share that was taken before it was made. The rest of the share is returned.
pub(crate) fn with_share(mut response: Response<Body>, mut share: ByteShare) -> Response<Body> {
    let bytes = response.body().size_hint().lower();
    share.shrink_to(usize::try_from(bytes).unwrap_or(usize::MAX));
    response
        .extensions_mut()
        .insert(AnswerShare(Arc::new(share)));
    response
}

/// Counts an answer until its last byte is written to the connection. The answer to a request that has changed
/// something is counted even if the budget has too few bytes left.
///
/// # Errors
/// The budget has too few bytes left.
pub(crate) fn counted(
    mut response: Response<Body>,
    budget: &ByteBudget,
    has_changed: bool,
) -> Result<Response<Body>, BudgetExhausted> {
    let taken = response.extensions_mut().remove::<AnswerShare>();
    let size = response.body().size_hint().exact();
    let bytes = size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let share = match (bytes, taken) {
        (Some(..=UNCOUNTED_BYTES), _) => return Ok(response),
        (_, Some(AnswerShare(share))) => Some(share),
        (Some(bytes), None) if has_changed => {
            let mut share = budget.share();
            share.grow_beyond(bytes);
            Some(Arc::new(share))
        }
        (Some(bytes), None) => Some(Arc::new(take(budget, bytes)?)),
        // The parts of a stream are counted one by one.
        (None, None) => None,
    };
    let budget = budget.clone();
    Ok(response.map(|inner| {
        Body::new(CountedBody {
            inner,
            share,
            budget,
        })
    }))
}

/// A body whose parts hold a share of the budget until they are written.
struct CountedBody {
    inner: Body,
    /// The share of the whole body; `None` = each part has its own.
    share: Option<Arc<ByteShare>>,
    budget: ByteBudget,
}

impl CountedBody {
    fn counted(&self, part: Bytes) -> Result<Bytes, BudgetExhausted> {
        let share = match &self.share {
            Some(share) => Arc::clone(share),
            None if part.len() <= UNCOUNTED_BYTES => return Ok(part),
            None => Arc::new(take(&self.budget, part.len())?),
        };
        Ok(Bytes::from_owner(CountedPart {
            part,
            _share: share,
        }))
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = ready!(Pin::new(&mut self.inner).poll_frame(context));
        let Some(frame) = polled.transpose()? else {
            return Poll::Ready(None);
        };
        let counted = match frame.into_data() {
            Ok(part) => self.counted(part).map(Frame::data)?,
            Err(trailers) => trailers,
        };
        Poll::Ready(Some(Ok(counted)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

struct CountedPart {
    part: Bytes,
    _share: Arc<ByteShare>,
}

impl AsRef<[u8]> for CountedPart {
    fn as_ref(&self) -> &[u8] {
        &self.part
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use http_body_util::BodyExt;

    use super::*;

    const LARGE: usize = 400_000;

    fn answer(bytes: usize) -> Response<Body> {
        Response::new(Body::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn an_answer_is_counted_until_its_last_byte_is_dropped() {
        let budget = ByteBudget::new(1_000_000);
        let mut share = budget.share();
        share.grow_to(700_000).unwrap();
        let response = with_share(answer(LARGE), share);
        assert_eq!(budget.used(), LARGE, "what it does not need is returned");
        let response = counted(response, &budget, false).unwrap();
        let mut body = response.into_body();
        let text = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let part = text.slice(100..200);
        drop((body, text));
        assert_eq!(budget.used(), LARGE);
        drop(part);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn answers_beyond_the_budget_are_refused_unless_something_has_changed() {
        let budget = ByteBudget::new(LARGE + UNCOUNTED_BYTES);
        let first = counted(answer(LARGE), &budget, false).unwrap();
        assert!(counted(answer(LARGE), &budget, false).is_err());
        let small = counted(answer(UNCOUNTED_BYTES), &budget, false);
        assert!(small.is_ok());
        let changed = counted(answer(LARGE), &budget, true).unwrap();
        assert_eq!(budget.used(), 2 * LARGE);
        for response in [first, changed] {
            let text = to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert_eq!(text.len(), LARGE);
        }
        assert_eq!(budget.used(), 0);
        // One answer may be larger than the budget.
        let largest = counted(answer(2 * LARGE), &budget, false).unwrap();
        assert!(counted(answer(LARGE), &budget, false).is_err());
        drop(largest);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_body_and_its_base64_are_counted() {
        assert_eq!(answer_bytes(0), 0);
        assert_eq!(answer_bytes(3), 7);
        assert_eq!(answer_bytes(4), 12);
    }
}
