//! Requests whose answers are looked at, whatever they are.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use tidegate_http_pool::{HttpPool, Resend};
use tokio::time::{Instant, timeout_at};

/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The most bytes of an answer that are read. The metrics of many queues are the largest.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A client for plain HTTP and for TLS.
#[derive(Debug)]
pub(super) struct HttpProbe(HttpPool<HttpsConnector<HttpConnector>>);

/// An answer with any status.
#[derive(Debug)]
pub(super) struct ProbeAnswer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// A request; by default a GET without headers and body.
#[derive(Debug, Default)]
pub(super) struct ProbeRequest {
    pub(super) method: Method,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: &'static str,
}

impl HttpProbe {
    /// A client for this URL. The certificate authorities of the system are read for `https://` only.
    ///
    /// # Errors
    /// The certificate authorities cannot be read.
    pub(super) fn new(url: &str) -> Result<Self, String> {
        let provider = rustls::crypto::ring::default_provider();
        let builder = match url.starts_with("https:") {
            true => HttpsConnectorBuilder::new()
                .with_provider_and_native_roots(provider)
                .map_err(|error| error.to_string())?,
            false => {
                let config = ClientConfig::builder_with_provider(provider.into())
                    .with_safe_default_protocol_versions()
                    .map_err(|error| error.to_string())?
                    .with_root_certificates(RootCertStore::empty())
                    .with_no_client_auth();
                HttpsConnectorBuilder::new().with_tls_config(config)
            }
        };
        let connector = builder.https_or_http().enable_http1().build();
        Ok(Self(HttpPool::new(connector)))
    }

    pub(super) async fn get(&self, url: &str) -> Result<ProbeAnswer, String> {
        self.send(url, ProbeRequest::default()).await
    }

    /// Sends a request once.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn send(
        &self,
        url: &str,
        request: ProbeRequest,
    ) -> Result<ProbeAnswer, String> {
        let mut builder = Request::builder().method(request.method).uri(url);
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        let body = Full::new(Bytes::from_static(request.body.as_bytes()));
        let http = builder.body(body).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + LIMIT;
        let answer = self.0.request(http, Resend::Allowed, LIMIT).await;
        let (head, body) = answer.map_err(|error| error.to_string())?.into_parts();
        let body = timeout_at(deadline, Limited::new(body, ANSWER_BYTES_MAX).collect()).await;
        let body = body.map_err(|_| format!("no answer within {LIMIT:?}"))?;
        Ok(ProbeAnswer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.map_err(|error| error.to_string())?.to_bytes(),
        })
    }
}

impl ProbeAnswer {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }

    pub(super) fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }
}
