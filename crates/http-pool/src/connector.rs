//! The connector of every pool.

use std::cell::Cell;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::Uri;
use tokio::time::timeout;
use tower::{BoxError, Service};

/// The longest time for the name, the TCP connection and the handshake of TLS. A connection may be made for a request that
/// has ended meanwhile, so the time limit of the request does not bound it.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

tokio::task_local! {
    /// Whether the request of this task has dialled.
    static HAS_DIALLED: Cell<bool>;
}

/// Runs a request. Returns whether it has dialled, besides its output: hyper connects inside of the task of the request,
/// and only if no connection is idle.
pub(crate) async fn recording_dials<F: Future>(request: F) -> (F::Output, bool) {
    let recording = async {
        let output = request.await;
        (output, HAS_DIALLED.with(Cell::get))
    };
    HAS_DIALLED.scope(Cell::new(false), recording).await
}

/// Records that it was called, and limits the time in which another connector connects.
#[derive(Debug, Clone)]
pub struct LimitedConnector<C>(pub(crate) C);

impl<C> Service<Uri> for LimitedConnector<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // Fails outside of a request.
        let _ = HAS_DIALLED.try_with(|has_dialled| has_dialled.set(true));
        let connecting = timeout(CONNECT_LIMIT, self.0.call(uri));
        Box::pin(async {
            match connecting.await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => {
                    let text = format!("no connection within {CONNECT_LIMIT:?}");
                    Err(io::Error::new(io::ErrorKind::TimedOut, text).into())
                }
            }
        })
    }
}
