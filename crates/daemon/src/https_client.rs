//! The client of requests that a daemon sends itself.

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tidegate_http_pool::HttpPool;

/// A client for `http` and `https` with a pool of connections. It follows no redirects.
pub type HttpsClient = HttpPool<HttpsConnector<HttpConnector>>;

/// A client that trusts the certificate authorities of the system. It does not connect yet.
///
/// # Errors
/// The certificate authorities cannot be read.
pub fn https_client() -> Result<HttpsClient, String> {
    let provider = rustls::crypto::ring::default_provider();
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(provider)
        .map_err(|error| format!("failed to read the certificates of the system: {error}"))?
        .https_or_http()
        .enable_http1()
        .build();
    Ok(HttpPool::new(connector))
}
