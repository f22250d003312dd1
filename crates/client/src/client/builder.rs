//! Describes a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderValue;
use tidegate_core::Namespace;

use super::{Client, TraceParentHook};
use crate::error::Error;
use crate::repeat::RepeatLimits;
use crate::transport::HttpTransport;

const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Describes a [`Client`].
#[must_use]
pub struct ClientBuilder {
    url: String,
    key: Option<String>,
    namespace: Option<String>,
    limits: RepeatLimits,
    time_limit: Duration,
    trace_parent: Option<TraceParentHook>,
}

impl fmt::Debug for ClientBuilder {
    /// Without the key, which is a secret.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClientBuilder")
            .field("url", &self.url)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "opentelemetry")]
#[allow(clippy::unnecessary_wraps, reason = "as without the feature")]
fn default_trace_parent() -> Option<TraceParentHook> {
    Some(Arc::new(crate::traces::trace_parent))
}

#[cfg(not(feature = "opentelemetry"))]
fn default_trace_parent() -> Option<TraceParentHook> {
    None
}

impl ClientBuilder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            key: None,
            namespace: None,
            limits: RepeatLimits::default(),
            time_limit: TIME_LIMIT,
            trace_parent: default_trace_parent(),
        }
    }

    /// Sets the API key, `tg_…`. A token of the lmstfy wire is accepted, too. Required.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the namespace. Required.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets how often requests are repeated after errors.
    pub const fn repeat_limits(mut self, limits: RepeatLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long one attempt of a request may take, besides the time that the server is asked to wait. Default: 30
    /// s.
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Sets a function that returns the trace parent of the running span (W3C Trace Context: the value of the header
    /// `traceparent`), or `None` if the span is not sampled. It becomes the attribute `traceparent` of published jobs,
    /// and `link.traceparent` in the spans of workers. By default no function; with the feature `opentelemetry`, a
    /// function that asks `tracing-opentelemetry`.
    pub fn trace_parent(
        mut self,
        hook: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.trace_parent = Some(Arc::new(hook));
        self
    }

    /// Makes the client. No request is sent.
    ///
    /// # Errors
    /// The URL, the key or the namespace is missing or not valid.
    pub fn build(self) -> Result<Client, Error> {
        let url = self.url.trim_end_matches('/');
        let parsed: Option<Uri> = url.parse().ok();
        let is_http =
            |uri: &Uri| uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https"));
        let has_more = |uri: &Uri| {
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            uri.query().is_some() || url.contains('#') || authority.contains('@')
        };
        if !parsed.is_some_and(|uri| is_http(&uri) && !has_more(&uri)) {
            // It may have a password.
            let text = "the URL names no server: write it like https://tidegate.example.com, without a user, a \
                        query or a fragment";
            return Err(Error::Setup(text.to_owned()));
        }
        let missing =
            |what: &str| Error::Setup(format!("the client has no {what}: set it with .{what}(…)"));
        let namespace = self.namespace.ok_or_else(|| missing("namespace"))?;
        let namespace: Namespace = namespace.parse()?;
        let key = self.key.ok_or_else(|| missing("key"))?;
        let key = HeaderValue::from_str(&format!("Bearer {}", key.trim()));
        let mut key = key.map_err(|_| {
            Error::Setup("the API key has characters that no API key has".to_owned())
        })?;
        key.set_sensitive(true);
        let base = format!("{url}/v1/{namespace}");
        let transport = HttpTransport::new(base, Some(key), self.limits, self.time_limit)?;
        Ok(Client {
            transport: Arc::new(transport),
            trace_parent: self.trace_parent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let complete = |url: &str| Client::builder(url).key("tg_A_B").namespace("shop");
        assert!(complete("http://localhost:7777/").build().is_ok());
        let error = |builder: ClientBuilder| builder.build().unwrap_err().to_string();
        for url in ["", "localhost:7777", "ftp://a", "http://", "http://a?b=c"] {
            assert!(error(complete(url)).contains("names no server"), "{url}");
        }
        let bare = || Client::builder("http://localhost");
        assert!(error(bare().key("k")).contains(".namespace("));
        assert!(error(bare().namespace("n")).contains(".key("));
        assert!(error(complete("http://a").namespace("a b")).contains("invalid_name"));
        assert!(error(complete("http://a").key("a\nb")).contains("API key"));
        assert!(!format!("{:?}", complete("http://a")).contains("tg_A"));
    }
}
