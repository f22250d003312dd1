//! Connections to one server, with TLS or without.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response};
#[cfg(feature = "tls")]
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::{Instant, timeout_at};

use crate::error::{ConnectorError, RequestError, causes};
use crate::{HttpPool, Resend};

/// The longest time for the TCP connection to one address of the server.
const TCP_CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Connections to a server that are kept open between requests. Clones share them.
#[derive(Debug, Clone)]
pub enum Connections {
    /// Without TLS. Needs no certificate authorities.
    Plain(HttpPool<HttpConnector>),
    /// With TLS.
    #[cfg(feature = "tls")]
    Tls(HttpPool<HttpsConnector<HttpConnector>>),
}

impl Connections {
    /// Connections to the server of this URL. None is opened yet. No redirect is followed.
    ///
    /// # Errors
    /// The URL is `https://`, and the certificate authorities of the system cannot be read, or the feature `tls` is off.
    pub fn new(url: &str) -> Result<Self, ConnectorError> {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(TCP_CONNECT_LIMIT));
        let scheme = url.split(':').next().unwrap_or_default();
        match scheme.eq_ignore_ascii_case("https") {
            false => Ok(Self::Plain(HttpPool::new(http))),
            true => Self::with_tls(http),
        }
    }

    #[cfg(feature = "tls")]
    fn with_tls(http: HttpConnector) -> Result<Self, ConnectorError> {
        Ok(Self::Tls(HttpPool::new(tls_connector(http)?)))
    }

    #[cfg(not(feature = "tls"))]
    fn with_tls(_: HttpConnector) -> Result<Self, ConnectorError> {
        Err(ConnectorError {
            detail: "https:// needs the feature `tls` of the package `tidegate`".to_owned(),
            remedy: "switch it on in Cargo.toml",
        })
    }

    /// Sends a request as [`HttpPool::request`] does.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn request(
        &self,
        request: Request<Full<Bytes>>,
        resend: Resend,
        limit: Duration,
    ) -> Result<Response<Incoming>, RequestError> {
        match self {
            Self::Plain(pool) => pool.request(request, resend, limit).await,
            #[cfg(feature = "tls")]
            Self::Tls(pool) => pool.request(request, resend, limit).await,
        }
    }

    /// Sends a request, and returns its whole answer within the limit of time.
    ///
    /// # Errors
    /// There is no answer, it breaks off, or its body has more than `bytes_max` bytes.
    pub async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        resend: Resend,
        limit: Duration,
        bytes_max: usize,
    ) -> Result<Response<Bytes>, RequestError> {
        let deadline = Instant::now() + limit;
        let (head, body) = self.request(request, resend, limit).await?.into_parts();
        let reading = Limited::new(body, bytes_max).collect();
        let read = timeout_at(deadline, reading).await;
        let body = read.map_err(|_| RequestError::TimedOut(limit))?;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => RequestError::TooLarge {
                status: head.status.as_u16(),
                bytes_max,
            },
            false => RequestError::ConnectionBroken(causes(&*error)),
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

/// A connector for `https://` and `http://` that trusts the certificate authorities of the system.
///
/// # Errors
/// They cannot be read.
#[cfg(feature = "tls")]
pub fn tls_connector<R>(
    mut http: HttpConnector<R>,
) -> Result<HttpsConnector<HttpConnector<R>>, ConnectorError> {
    http.enforce_http(false);
    let provider = rustls::crypto::ring::default_provider();
    let builder = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider);
    let builder = builder.map_err(|error| ConnectorError {
        detail: format!("failed to read the certificate authorities of this system: {error}"),
        remedy: "install the package ca-certificates",
    })?;
    Ok(builder.https_or_http().enable_http1().wrap_connector(http))
}
