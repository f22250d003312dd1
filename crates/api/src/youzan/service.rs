//! The state that all requests of the listener share.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;
use tidegate_core::{Namespace, QueueKey, QueueName};
use tidegate_daemon::cross_site_reason;
use tidegate_engine::{Credential, Pool};

use super::error::YouzanError;
use crate::app::App;
use crate::config::{Password, YouzanConfig};

/// The credential of all clients that wait for jobs.
pub(super) const CREDENTIAL: Credential = Credential::Listener("youzan");

/// The namespace and the pool of the listener, and its settings.
#[derive(Debug)]
pub(super) struct YouzanService {
    pub(super) app: Arc<App>,
    pub(super) namespace: Namespace,
    pub(super) pool: Arc<Pool>,
    /// The longest wait of a pop.
    pub(super) wait_max: Duration,
    /// Whether a job is delivered again after any number of TTRs that ended.
    pub(super) losses_unlimited: bool,
    token: Password,
    on_loopback: bool,
}

impl YouzanService {
    /// `None` if there is no such pool or namespace, which the check of the settings rejects.
    pub(super) fn new(app: &Arc<App>, config: &YouzanConfig) -> Option<Self> {
        Some(Self {
            namespace: config.namespace()?,
            pool: Arc::clone(app.engine.pool(&config.pool)?),
            wait_max: config.pop_wait.min(app.wait_max),
            losses_unlimited: config.redeliver_always,
            token: config.token.clone(),
            on_loopback: config.address()?.ip().to_canonical().is_loopback(),
            app: Arc::clone(app),
        })
    }

    pub(super) fn queue(&self, topic: &QueueName) -> QueueKey {
        QueueKey {
            namespace: self.namespace.clone(),
            queue: topic.clone(),
        }
    }

    /// Checks the token, if there is one; else, that no page of another site has made a browser send the request.
    ///
    /// # Errors
    /// The request has no token or another one, or is a cross-site request.
    pub(super) fn authenticate(&self, headers: &HeaderMap) -> Result<(), YouzanError> {
        let expected = self.token.text();
        if expected.is_empty() {
            let reason = cross_site_reason(headers, self.on_loopback);
            return reason.map_or(Ok(()), |reason| Err(YouzanError::CrossSite(reason)));
        }
        let presented = headers
            .get(header::AUTHORIZATION)
            .map_or(&b""[..], |value| value.as_bytes());
        let is_bearer = presented
            .get(..7)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"Bearer "));
        let token = presented.get(7..).unwrap_or_default().trim_ascii();
        // In constant time, so that the time reveals no part of the token.
        match is_bearer && bool::from(token.ct_eq(expected.as_bytes())) {
            true => Ok(()),
            false => Err(YouzanError::TokenInvalid),
        }
    }
}
