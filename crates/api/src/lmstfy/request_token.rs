//! The token of a request, and the pool and namespace that it opens.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::http::HeaderValue;
use futures_util::poll;
use tidegate_core::Namespace;
use tidegate_engine::{EngineError, LimitedAction, Permit, Pool, TokenKey, split_token};

use super::error::ApiError;
use crate::app::App;
use crate::http::context::RequestContext;
use crate::http::drained_server::TOKEN;
use crate::http::request::ApiRequest;

/// The token of a request, as the client sent it. Its pool and namespace are recorded in the context of the request.
pub(super) struct RequestToken<'a> {
    token: Cow<'a, str>,
    context: &'a RequestContext,
}

impl<'a> RequestToken<'a> {
    /// Reads the header `X-Token`; if it is absent or empty, the query parameter `token`.
    pub(super) fn in_request(api_request: &'a ApiRequest) -> Self {
        let header = api_request
            .head
            .headers
            .get(TOKEN)
            .map(HeaderValue::as_bytes);
        let token = match header {
            Some(value) if !value.is_empty() => match str::from_utf8(value) {
                Ok(token) => Cow::Borrowed(token),
                Err(_) => String::from_utf8_lossy(value),
            },
            _ => {
                let in_query = api_request.query().get("token").map(Cow::into_owned);
                in_query.unwrap_or_default().into()
            }
        };
        Self {
            token,
            context: &api_request.context,
        }
    }

    /// The pool and the token of `[pool:]token`; without a pool it is empty.
    pub(super) fn split(&self) -> (&str, &str) {
        split_token(&self.token)
    }

    pub(super) fn pool(&self, app: &App) -> Result<Arc<Pool>, ApiError> {
        let pool = app.pool(self.split().0).ok_or(ApiError::PoolNotFound)?;
        let _ = self.context.pool.set(Arc::clone(pool));
        Ok(Arc::clone(pool))
    }

    /// Checks the token and returns the namespace. `None` is a namespace with an invalid name, to which no token gives
    /// access. With `skip_token_checks`, requests are accepted with any token or none.
    ///
    /// # Errors
    /// The token is missing or invalid, or cannot be checked.
    pub(super) async fn check<'n>(
        &self,
        app: &App,
        pool: &Pool,
        namespace: Option<&'n Namespace>,
    ) -> Result<&'n Namespace, ApiError> {
        if app.engine.skip_token_checks {
            return namespace.ok_or(ApiError::NameTooLong);
        }
        let token = self.split().1;
        if token.is_empty() {
            return Err(ApiError::TokenMissing);
        }
        let namespace = namespace.ok_or(ApiError::TokenInvalid)?;
        let opens = app
            .engine
            .tokens
            .is_valid(&pool.name, namespace, token)
            .await;
        if opens? {
            let _ = self.context.namespace.set(namespace.clone());
            Ok(namespace)
        } else {
            Err(ApiError::TokenInvalid)
        }
    }

    /// Checks the token, and takes a permit of its rate limit. The limit is the same whether or not the token names its
    /// pool. With `skip_token_checks`, requests without a token have no limit.
    ///
    /// # Errors
    /// The errors of [`Self::check`], or the limit is reached or unknown.
    pub(super) async fn permit<'n>(
        &self,
        app: &App,
        pool: &Pool,
        namespace: Option<&'n Namespace>,
        action: LimitedAction,
    ) -> Result<(&'n Namespace, Permit), ApiError> {
        let token = self.split().1;
        let stored = app.engine.tokens.stored_form(token);
        let mut checking = pin!(self.check(app, pool, namespace));
        let namespace = match poll!(&mut checking) {
            Poll::Ready(checked) => checked?,
            Poll::Pending => {
                if let Some(namespace) = namespace {
                    // Concurrently with the look-up of the token.
                    let token = TokenKey::new(&pool.name, namespace, &stored);
                    app.engine.limits.refresh(token);
                }
                checking.await?
            }
        };
        let holder = TokenKey::new(&pool.name, namespace, &stored);
        let permit = app.engine.limits.permit(holder, action);
        let permit = permit.await.map_err(|reason| match reason {
            EngineError::RateLimited => {
                app.exchange.metrics.limited(&pool.name, namespace, action);
                ApiError::OverLimit {
                    action,
                    token: token.into(),
                }
            }
            error => error.into(),
        })?;
        Ok((namespace, permit))
    }
}
