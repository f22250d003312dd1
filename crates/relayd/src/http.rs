//! An HTTP client that follows no redirects, and dials only addresses that its guard allows.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use tidegate::api::relay::AddressGuard;
use tidegate_http_pool::{HttpPool, RequestError, Resend, tls_connector};
use tokio::time::{Instant, timeout_at};

/// How much of a longer body is read and dropped, to see whether it breaks off.
const READ_MAX: usize = 1 << 20;

/// An answer. The body is cut off at the limit of the client.
#[derive(Debug)]
pub(crate) struct BoundedResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The beginning of the body.
    pub(crate) body: Bytes,
}

/// A client with a pool of connections.
pub(crate) struct HttpClient {
    pool: HttpPool<HttpsConnector<HttpConnector<GuardedResolver>>>,
    guard: AddressGuard,
    body_max: usize,
}

impl HttpClient {
    /// A client that keeps up to so many bytes of a body, and dials only addresses that the guard allows.
    ///
    /// # Errors
    /// The certificate authorities of the system cannot be read.
    pub(crate) fn new(guard: AddressGuard, body_max: usize) -> Result<Self, String> {
        let mut http = HttpConnector::new_with_resolver(GuardedResolver(guard.clone()));
        http.set_nodelay(true);
        Ok(Self {
            pool: HttpPool::new(tls_connector(http)?),
            guard,
            body_max,
        })
    }

    /// Sends a request, and returns its answer within the limit of time. A redirect is an answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
        limit: Duration,
    ) -> Result<BoundedResponse, RequestError> {
        // The connector does not resolve a host that is an address.
        if let Some(address) = host_address(uri)
            && !self.guard.allows(address)
        {
            return Err(RequestError::NotConnected(refusal(address)));
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        let deadline = Instant::now() + limit;
        // A job carries its id, and the other requests may be repeated.
        let response = self.pool.request(request, Resend::Allowed, limit).await?;
        let (parts, body) = response.into_parts();
        let body = timeout_at(deadline, read_body(body, self.body_max)).await;
        let body = body.map_err(|_| RequestError::TimedOut(limit))??;
        Ok(BoundedResponse {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }
}

/// Up to so many bytes of a body.
async fn read_body(mut body: Incoming, kept_max: usize) -> Result<Bytes, RequestError> {
    let (mut kept, mut read) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            RequestError::ConnectionBroken(format!("the answer broke off: {error}"))
        })?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        let room = kept_max - kept.len();
        kept.extend_from_slice(&data[..data.len().min(room)]);
        read += data.len();
        if read > kept_max.max(READ_MAX) {
            break;
        }
    }
    Ok(kept.freeze())
}

/// The address that is the host of a URL.
fn host_address(uri: &Uri) -> Option<IpAddr> {
    let host = uri.host()?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    host.parse().ok()
}

fn refusal(address: IpAddr) -> String {
    format!("the address {address} is not public; if it is meant, add it to allow_networks")
}

/// Resolves names, and returns only addresses that the guard allows. The connection is made to one of these: a name
/// that resolves to another address a moment later has no effect.
#[derive(Clone)]
struct GuardedResolver(AddressGuard);

impl tower::Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let guard = self.0.clone();
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let first = found.first().map(SocketAddr::ip);
            let allowed: Vec<_> = found
                .into_iter()
                .filter(|address| guard.allows(address.ip()))
                .collect();
            match (allowed.is_empty(), first) {
                (true, Some(first)) => Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    refusal(first),
                )),
                _ => Ok(allowed.into_iter()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(300);

    /// The kernel accepts connections, and no process reads from them.
    #[tokio::test]
    async fn only_a_request_that_was_sent_may_have_arrived() {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = silent.local_addr().unwrap();
        let guard = AddressGuard::new(&["127.0.0.0/8"]).unwrap();
        let client = HttpClient::new(guard, 100).unwrap();
        let send = async |uri: String| {
            let uri = uri.parse().unwrap();
            let sent = client.send(Method::POST, &uri, HeaderMap::new(), Bytes::new(), LIMIT);
            sent.await.unwrap_err()
        };
        let error = send(format!("https://{address}")).await;
        assert!(matches!(error, RequestError::NotConnected(_)), "{error:?}");
        let error = send(format!("http://{address}")).await;
        assert!(matches!(error, RequestError::TimedOut(_)), "{error:?}");
    }
}
