//! The HTTP client of object stores: the connection pool of all our clients.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use tidegate_http_pool::{Connections, RequestError, Resend};

/// Time limit until the head of an answer is there.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Makes the clients.
#[derive(Debug)]
pub(crate) struct PoolConnector;

impl HttpConnector for PoolConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        // For both schemes.
        let connections = Connections::new("https://");
        let connections = connections.map_err(|error| object_store::Error::Generic {
            store: "HTTP",
            source: Box::new(error),
        })?;
        Ok(HttpClient::new(PoolService { connections }))
    }
}

struct PoolService {
    connections: Connections,
}

impl PoolService {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let resend = match head.method {
            Method::GET | Method::HEAD => Resend::Allowed,
            _ => Resend::Forbidden,
        };
        let request = Request::from_parts(head, Full::new(body));
        let answer = self.connections.request(request, resend, ANSWER_MAX).await;
        let (head, body) = answer.map_err(to_http_error)?.into_parts();
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

impl HttpService for PoolService {
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(self.send(request))
    }
}

impl fmt::Debug for PoolService {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PoolService")
    }
}

fn to_http_error(error: RequestError) -> HttpError {
    let kind = match error {
        RequestError::NotConnected(_) => HttpErrorKind::Connect,
        RequestError::TimedOut(_) => HttpErrorKind::Timeout,
        RequestError::ConnectionBroken(_) | RequestError::TooLarge { .. } => {
            HttpErrorKind::Interrupted
        }
    };
    HttpError::new(kind, error)
}
