//! Requests whose answers are looked at, whatever they are.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};
use serde::de::DeserializeOwned;
use tidegate_http_pool::{Connections, ConnectorError, Resend};

use crate::failure::CommandFailure;

/// The environment variable with the password of the account.
pub(crate) const PASSWORD: &str = "TG_ADMIN_PASSWORD";

/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The most bytes of an answer that are read. The metrics of many queues are the largest.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A client of one server.
#[derive(Debug)]
pub(crate) struct HttpProbe(Connections);

/// An answer with any status.
#[derive(Debug)]
pub(crate) struct ProbeAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A request; by default a GET without headers and body.
#[derive(Debug, Default)]
pub(crate) struct ProbeRequest {
    pub(crate) method: Method,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
}

impl HttpProbe {
    /// A client for this URL. The certificate authorities of the system are read for `https://` only.
    ///
    /// # Errors
    /// The certificate authorities cannot be read.
    pub(crate) fn new(url: &str) -> Result<Self, ConnectorError> {
        Connections::new(url).map(Self)
    }

    pub(crate) async fn get(&self, url: &str) -> Result<ProbeAnswer, String> {
        self.send(url, ProbeRequest::default()).await
    }

    /// Sends a request once.
    ///
    /// # Errors
    /// There is no answer.
    pub(crate) async fn send(
        &self,
        url: &str,
        request: ProbeRequest,
    ) -> Result<ProbeAnswer, String> {
        let mut builder = Request::builder().method(request.method).uri(url);
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        let body = Full::new(request.body);
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
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// The header `Authorization` of an account of an admin port.
///
/// # Errors
/// Its password was not given.
pub(crate) fn login(user: &str) -> Result<HeaderValue, CommandFailure> {
    let password = std::env::var(PASSWORD).map_err(|_| {
        CommandFailure::Usage(format!(
            "no password for the account {user}; set {PASSWORD}"
        ))
    })?;
    let text = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| CommandFailure::Usage("the account has invalid characters".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
