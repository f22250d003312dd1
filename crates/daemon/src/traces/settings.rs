//! Settings of traces.

use serde::Deserialize;

/// The path of spans, as OTLP says.
const SPANS_PATH: &str = "/v1/traces";

/// Traces cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("traces.endpoint: {0}")]
pub struct TracesError(pub(super) String);

/// Settings of traces.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracesConfig {
    /// The URL of the collector, such as `http://127.0.0.1:4318`. Empty: no traces.
    pub endpoint: String,
    /// One in so many publishes without a sampled trace parent, or runs of a pump, starts a trace. 0: none does.
    pub sample_one_in: u64,
}

impl TracesConfig {
    /// Checks `traces.endpoint`.
    ///
    /// # Errors
    /// It is not the URL of a server.
    pub fn check(&self) -> Result<(), TracesError> {
        let Some(url) = self.spans_url() else {
            return Ok(());
        };
        let uri: Option<hyper::Uri> = url.parse().ok();
        let is_server = uri.is_some_and(|uri| {
            let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
            let has_login = uri.authority().is_some_and(|it| it.as_str().contains('@'));
            is_http && !has_login && uri.host().is_some_and(|host| !host.is_empty())
        });
        match is_server {
            true => Ok(()),
            false => Err(TracesError(
                "must be empty, or the URL of a collector such as \"http://127.0.0.1:4318\""
                    .to_owned(),
            )),
        }
    }

    /// The URL that takes spans; `None` without an endpoint.
    pub(super) fn spans_url(&self) -> Option<String> {
        let endpoint = self.endpoint.trim_end_matches('/');
        (!endpoint.is_empty()).then(|| format!("{endpoint}{SPANS_PATH}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(endpoint: &str) -> TracesConfig {
        TracesConfig {
            endpoint: endpoint.to_owned(),
            sample_one_in: 1,
        }
    }

    #[test]
    fn an_endpoint_is_the_url_of_a_server() {
        for (endpoint, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            (
                "https://otel.example/x/",
                "https://otel.example/x/v1/traces",
            ),
        ] {
            assert!(config(endpoint).check().is_ok(), "{endpoint}");
            assert_eq!(config(endpoint).spans_url().as_deref(), Some(url));
        }
        assert!(config("").check().is_ok());
        assert_eq!(config("").spans_url(), None);
        for bad in [
            "127.0.0.1:4318",
            "grpc://127.0.0.1:4317",
            "http://",
            "http://user:hunter2@a.example",
            "http://a b",
        ] {
            let error = config(bad).check().unwrap_err().to_string();
            assert!(error.starts_with("traces.endpoint: must be"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
