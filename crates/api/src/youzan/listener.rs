//! The listener of the protocol.

use std::sync::Arc;
use std::time::Duration;

use tidegate_daemon::{BindError, ByteBudget, DrainResult, Listener, ServingThreads};
use tokio_util::sync::CancellationToken;

use super::routes;
use super::service::YouzanService;
use crate::app::App;
use crate::config::{ApiConfig, YouzanConfig};

/// The bound listener, if the settings have one.
#[derive(Debug)]
pub(crate) struct YouzanListener {
    listener: Option<Listener>,
    config: YouzanConfig,
}

impl YouzanListener {
    /// Binds the address of the settings, if there is one. `headers` is the memory for headers of all listeners.
    ///
    /// # Errors
    /// The address is not local, is in use, or needs a privilege.
    pub(crate) async fn bind(
        config: &ApiConfig,
        headers: &ByteBudget,
        threads: &ServingThreads,
    ) -> Result<Self, BindError> {
        let config_of_youzan = config.youzan.clone();
        let (Some(address), Some(limits)) = (
            config.youzan.address(),
            config.youzan.limits(&config.connections),
        ) else {
            return Ok(Self {
                listener: None,
                config: config_of_youzan,
            });
        };
        let listener = Listener::bind("youzan", "youzan.listen", address, limits).await?;
        let listener = listener
            .with_header_budget(headers.clone())
            .on_threads(threads);
        let is_private = address.ip().to_canonical().is_loopback();
        if !is_private && config.youzan.token.text().is_empty() {
            tracing::warn!(
                listen = %address,
                "youzan.listen: any client that reaches this address can add, take and delete jobs; set youzan.token, or \
                 listen on a private address"
            );
        }
        tracing::info!(listen = %listener.address(), namespace = ?config.youzan.namespace(), "serving Youzan's protocol");
        Ok(Self {
            listener: Some(listener),
            config: config_of_youzan,
        })
    }

    /// Serves until `stop` is cancelled, and then as [`Listener::serve`] says. Without an address it returns at once.
    pub(crate) async fn serve(
        self,
        app: &Arc<App>,
        stop: CancellationToken,
        drain_timeout: Duration,
    ) -> DrainResult {
        let service = YouzanService::new(app, &self.config).map(Arc::new);
        let (Some(listener), Some(service)) = (self.listener, service) else {
            return DrainResult::Complete;
        };
        let answer = move |request, peer| routes::answer(&service, request, peer);
        listener.serve(answer, stop, drain_timeout).await
    }
}
