//! Connections to a server, with TLS or without.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use tidegate_http_pool::{HttpPool, RequestError, Resend};

use crate::error;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Connections that are kept open between requests.
#[derive(Debug)]
pub(crate) enum Connections {
    Plain(HttpPool<HttpConnector>),
    #[cfg(feature = "tls")]
    Tls(HttpPool<hyper_rustls::HttpsConnector<HttpConnector>>),
}

impl Connections {
    /// Connections to the server of this URL. None is opened yet.
    pub(crate) fn new(url: &str) -> Result<Self, error::Error> {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_LIMIT));
        if !url.starts_with("https:") {
            return Ok(Self::Plain(HttpPool::new(http)));
        }
        http.enforce_http(false);
        with_tls(http)
    }

    pub(crate) async fn request(
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
}

#[cfg(feature = "tls")]
fn with_tls(http: HttpConnector) -> Result<Connections, error::Error> {
    let provider = rustls::crypto::ring::default_provider();
    let builder =
        hyper_rustls::HttpsConnectorBuilder::new().with_provider_and_native_roots(provider);
    let builder = builder.map_err(|error| {
        error::Error::Setup(format!(
            "failed to read the certificate authorities of this system: {error}; install the package ca-certificates"
        ))
    })?;
    let connector = builder.https_only().enable_http1().wrap_connector(http);
    Ok(Connections::Tls(HttpPool::new(connector)))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: HttpConnector) -> Result<Connections, error::Error> {
    let text = "https:// needs the feature `tls` of the package `tidegate`";
    Err(error::Error::Setup(text.to_owned()))
}
