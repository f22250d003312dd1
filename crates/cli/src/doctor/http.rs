//! Requests whose answers are looked at, whatever they are.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};
use serde::de::DeserializeOwned;
use tidegate_http_pool::{Connections, ConnectorError, Resend};

/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The most bytes of an answer that are read. The metrics of many queues are the largest.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A client of one server.
#[derive(Debug)]
pub(super) struct HttpProbe(Connections);

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
    pub(super) fn new(url: &str) -> Result<Self, ConnectorError> {
        Connections::new(url).map(Self)
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
        let exchange = self
            .0
            .exchange(http, Resend::Allowed, LIMIT, ANSWER_BYTES_MAX);
        let (head, body) = exchange
            .await
            .map_err(|error| error.to_string())?
            .into_parts();
        Ok(ProbeAnswer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
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
