//! Connections to a server, with TLS or without.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client as PooledClient, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tidegate_interim_limit::InterimLimitConnector;

use crate::error;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Shorter than the time after which servers usually close idle connections.
const IDLE_LIMIT: Duration = Duration::from_secs(20);

/// Connections that are kept open between requests.
#[derive(Debug)]
pub(crate) enum Connections {
    Plain(PooledClient<InterimLimitConnector<HttpConnector>, Full<Bytes>>),
    #[cfg(feature = "tls")]
    Tls(
        PooledClient<
            InterimLimitConnector<hyper_rustls::HttpsConnector<HttpConnector>>,
            Full<Bytes>,
        >,
    ),
}

impl Connections {
    /// Connections to the server of this URL. None is opened yet.
    pub(crate) fn new(url: &str) -> Result<Self, error::Error> {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_LIMIT));
        if !url.starts_with("https:") {
            return Ok(Self::Plain(pool().build(InterimLimitConnector(http))));
        }
        http.enforce_http(false);
        with_tls(http)
    }

    pub(crate) async fn request(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        match self {
            Self::Plain(pool) => pool.request(request).await,
            #[cfg(feature = "tls")]
            Self::Tls(pool) => pool.request(request).await,
        }
    }
}

fn pool() -> Builder {
    let mut builder = PooledClient::builder(TokioExecutor::new());
    builder
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_LIMIT);
    builder
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
    Ok(Connections::Tls(
        pool().build(InterimLimitConnector(connector)),
    ))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: HttpConnector) -> Result<Connections, error::Error> {
    let text = "https:// needs the feature `tls` of the package `tidegate`";
    Err(error::Error::Setup(text.to_owned()))
}
