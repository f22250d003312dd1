//! A connector whose handshakes end in time.

use std::error::Error;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::Uri;
use tokio::time::timeout;
use tower::Service;

/// The longest time for the name, the TCP connection and the handshake of TLS. A connection may be made for a request
/// that has ended meanwhile, so the time limit of the request does not bound it.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Limits the time in which another connector connects.
#[derive(Clone)]
pub(super) struct LimitedConnector<C>(pub(super) C);

impl<C> Service<Uri> for LimitedConnector<C>
where
    C: Service<Uri, Error = Box<dyn Error + Send + Sync>>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = C::Error;
    type Future = BoxFuture<'static, Result<C::Response, C::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async {
            timeout(CONNECT_LIMIT, connecting)
                .await
                .unwrap_or_else(|_| {
                    let text = format!("no connection within {CONNECT_LIMIT:?}");
                    Err(io::Error::new(io::ErrorKind::TimedOut, text).into())
                })
        })
    }
}
