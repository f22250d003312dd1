//! The body of an answer that shows jobs.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tidegate_engine::Delivered;

/// The response body `text`, which shows `jobs`. They count as delivered once hyper has taken it for writing. If it is
/// dropped before, they are released.
pub(crate) fn delivery_body(text: Bytes, jobs: Delivered) -> Body {
    Body::new(DeliveryBody {
        text: Some(text),
        jobs,
    })
}

/// A response body in one frame. hyper polls it when the connection is ready for writing, right after it has checked
/// for a hang-up, and never if the connection has ended.
struct DeliveryBody {
    text: Option<Bytes>,
    jobs: Delivered,
}

impl HttpBody for DeliveryBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let text = self.text.take();
        if text.is_some() {
            self.jobs.arrived();
        }
        Poll::Ready(text.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.text.as_ref().map_or(0, Bytes::len) {
            // hyper does not poll a body whose length is known to be 0: the jobs would be released.
            0 if self.text.is_some() => SizeHint::default(),
            bytes => SizeHint::with_exact(bytes as u64),
        }
    }
}
