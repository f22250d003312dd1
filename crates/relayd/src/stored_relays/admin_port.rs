//! `GET /relays` and `PUT /relays/reports` on the admin port of the API.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use serde_json::Value;
use tidegate::api::relay::{RelayReports, StoredRelays};
use tidegate_http_pool::{Connections, Resend};

use super::name::full_name;
use crate::config::AdminPortConfig;

/// More than a thousand relays have.
const BODY_BYTES_MAX: usize = 32 << 20;
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The relays that the API has, by `NAMESPACE/NAME`.
pub(super) struct ReadRelays {
    /// `None` for a relay that the API cannot read.
    pub(super) definitions: BTreeMap<String, Option<Value>>,
    /// The revisions of the relays that the API can read.
    pub(super) revisions: BTreeMap<String, String>,
}

/// The admin port of an API.
pub(super) struct AdminPort {
    connections: Connections,
    uri: Uri,
    reports_uri: Uri,
    credentials: Option<HeaderValue>,
    /// Of the last relays that were read.
    etag: Option<HeaderValue>,
}

impl AdminPort {
    pub(super) fn new(config: &AdminPortConfig) -> Result<Self, String> {
        if config.url.contains(['?', '#', '@']) {
            return Err("api.admin.url has a user, a query or a fragment; use api.admin.user and api.admin.password".to_owned());
        }
        let uri = |path| {
            let uri = format!("{}{path}", config.url.trim_end_matches('/'));
            let uri = uri.parse().ok().filter(|uri: &Uri| {
                matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
            });
            uri.ok_or("api.admin.url is missing, or is not like http://host:7778")
        };
        let account = format!("{}:{}", config.user, config.password.as_str());
        let credentials = (!config.user.is_empty()).then(|| {
            let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(account)));
            if let Ok(value) = &mut value {
                value.set_sensitive(true);
            }
            value
        });
        Ok(Self {
            connections: Connections::new(&config.url)?,
            uri: uri("/relays")?,
            reports_uri: uri("/relays/reports")?,
            credentials: credentials.transpose().map_err(|error| error.to_string())?,
            etag: None,
        })
    }

    /// The definitions of all relays, or `None` if they have not changed since the last call.
    pub(super) async fn read(&mut self) -> Result<Option<ReadRelays>, String> {
        let mut headers = self.headers();
        headers.extend(self.etag.clone().map(|value| (IF_NONE_MATCH, value)));
        let answer = self
            .send(Method::GET, &self.uri, headers, Bytes::new())
            .await?;
        match answer.status() {
            StatusCode::NOT_MODIFIED => return Ok(None),
            StatusCode::OK => {}
            status => return Err(format!("{}: status {status}", self.uri)),
        }
        let list: StoredRelays<Value> = serde_json::from_slice(answer.body())
            .map_err(|error| format!("{}: unexpected answer: {error}", self.uri))?;
        let mut relays = ReadRelays {
            definitions: BTreeMap::new(),
            revisions: BTreeMap::new(),
        };
        for item in list.items {
            let name = full_name(item.namespace.as_str(), &item.name);
            relays.revisions.insert(name.clone(), item.revision);
            relays.definitions.insert(name, Some(item.config));
        }
        let damaged = list.damaged.into_iter();
        let damaged = damaged.map(|item| (full_name(item.namespace.as_str(), &item.name), None));
        relays.definitions.extend(damaged);
        self.etag = answer.headers().get(ETAG).cloned();
        Ok(Some(relays))
    }

    /// Reports the states of relays.
    pub(super) async fn report(&self, reports: &RelayReports) -> Result<(), String> {
        let mut headers = self.headers();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = serde_json::to_vec(reports).map_err(|error| error.to_string())?;
        let uri = &self.reports_uri;
        let answer = self.send(Method::PUT, uri, headers, body.into()).await?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("{uri}: status {status}")),
        }
    }

    async fn send(
        &self,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, String> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        let sent = self
            .connections
            .exchange(request, Resend::Allowed, TIME_LIMIT, BODY_BYTES_MAX);
        sent.await.map_err(|error| error.to_string())
    }

    fn headers(&self) -> HeaderMap {
        let credentials = self.credentials.clone();
        credentials
            .map(|value| (AUTHORIZATION, value))
            .into_iter()
            .collect()
    }
}
