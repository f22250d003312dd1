//! The settings of the listener for Youzan's protocol.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use tidegate_core::Namespace;
use tidegate_daemon::ListenLimits;

use super::tables::Password;

/// The listener for Youzan's protocol, whose clients all work in one namespace.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct YouzanConfig {
    /// Its address; empty = there is none.
    listen: String,
    /// The namespace of its jobs.
    namespace: String,
    /// The pool of its jobs.
    pub pool: String,
    /// The longest wait of a `pop`. A `pop` without `timeout` waits for as long.
    #[serde(with = "tidegate_core::duration")]
    pub pop_wait: Duration,
    /// Whether a job is delivered again after any number of TTRs that ended; else `pump.losses_max` limits them.
    pub redeliver_always: bool,
    /// The token that requests must send as `Authorization: Bearer`; empty = no token.
    pub token: Password,
    /// The most connections at a time.
    pub connections_max: usize,
}

impl YouzanConfig {
    /// Its address; `None` = there is no such listener.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listen.parse().ok()
    }

    /// The namespace of its jobs; `None` only if the check of the settings fails.
    pub(crate) fn namespace(&self) -> Option<Namespace> {
        Namespace::try_from(self.namespace.as_str()).ok()
    }

    /// Its limits: the limits of the public listener, with another number of connections. `None` = no such listener.
    pub(crate) fn limits(&self, public: &ListenLimits) -> Option<ListenLimits> {
        self.address().map(|_| ListenLimits {
            connections_max: self.connections_max,
            ..public.clone()
        })
    }

    /// # Errors
    /// Names the invalid key and the reason.
    pub(super) fn check(&self, is_pool: impl Fn(&str) -> bool) -> Result<(), String> {
        let Self {
            listen,
            namespace,
            pool,
            ..
        } = self;
        if !listen.is_empty() && self.address().is_none() {
            return Err(format!(
                "youzan.listen must be an IP address and a port such as \"127.0.0.1:7790\", or empty, not {listen:?}"
            ));
        }
        if let Err(problem) = Namespace::try_from(namespace.as_str()) {
            return Err(format!("youzan.namespace = {namespace:?}: {problem}"));
        }
        if !is_pool(pool) {
            return Err(format!("youzan.pool = {pool:?}: there is no such pool"));
        }
        Ok(())
    }
}
