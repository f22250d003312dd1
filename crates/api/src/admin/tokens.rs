//! Creates, lists and deletes tokens.
//!
//! * `GET /token/NAMESPACE?pool=`
//! * `POST /token/NAMESPACE?pool=` with `description` and, optionally, `token`, in the query or in a form. Without
//!   `token` one is generated.
//! * `DELETE /token/NAMESPACE/TOKEN`. `TOKEN` may be `POOL:TOKEN`. The limit of the token is deleted as well; if that
//!   fails, the token is deleted all the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use serde::Serialize;
use tidegate_core::Namespace;
use tidegate_store::TokenCreated;

use super::error::AdminError;
use crate::app::App;
use crate::config::DEFAULT_POOL;
use crate::http::json;
use crate::http::query::Query;
use tidegate_engine::{generate, split_token};

const USER_TOKEN_LENGTH_MIN: usize = 20;
const FORM_BYTES_MAX: usize = 64 * 1024;

#[derive(Serialize)]
struct TokenList {
    tokens: BTreeMap<String, String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path(namespace): Path<String>,
    query: Query<'static>,
) -> Result<Response<Body>, AdminError> {
    let api_request = query.get("pool").unwrap_or_default();
    let pool = app.pool(&api_request).ok_or(AdminError::PoolNotFound)?;
    let tokens = match Namespace::try_from(namespace.as_str()) {
        Ok(namespace) => app.engine.tokens.list(&pool.name, &namespace).await?,
        // A namespace with an invalid name has no tokens.
        Err(_) => Vec::new(),
    };
    // If the query names a pool, the listed tokens have it in front.
    let shown = |token: String| match &*api_request {
        "" => token,
        pool => format!("{pool}:{token}"),
    };
    let tokens = tokens
        .into_iter()
        .map(|(token, text)| (shown(token), text))
        .collect();
    Ok(json::pretty_answer(StatusCode::OK, &TokenList { tokens }))
}

#[derive(Serialize)]
struct NewToken {
    token: String,
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Path(namespace): Path<String>,
    query: Query<'static>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, AdminError> {
    let form = read_form(&headers, body, &app).await?;
    let parameter = |name| {
        query
            .get(name)
            .or_else(|| form.get(name))
            .unwrap_or_default()
    };
    let description = parameter("description");
    if description.is_empty() {
        return Err(AdminError::NoDescription);
    }
    let user_token = parameter("token");
    let api_request = query.get("pool").unwrap_or_default();
    let (pool, token) = split_pool(&api_request, &user_token);
    // Without the name of the pool, which does not make a token harder to guess.
    if !user_token.is_empty() && token.len() < USER_TOKEN_LENGTH_MIN {
        return Err(AdminError::TokenTooShort);
    }
    let namespace = Namespace::try_from(namespace.as_str())?;
    let pool = app.pool(pool).ok_or(AdminError::PoolNotFound)?;
    let token = if token.is_empty() {
        generate()
    } else {
        token.to_owned()
    };
    let tokens = &app.engine.tokens;
    let creating = tokens.create(&pool.name, &namespace, &token, &description);
    match creating.await? {
        TokenCreated::AlreadyExists => Err(AdminError::TokenExists),
        TokenCreated::Done => {
            let token = with_pool(&pool.name, &token);
            let created = NewToken { token };
            Ok(json::pretty_answer(StatusCode::CREATED, &created))
        }
    }
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
) -> Result<StatusCode, AdminError> {
    let (pool, token) = split_token(&token);
    let pool = app.pool(pool).ok_or(AdminError::PoolNotFound)?;
    if let Ok(namespace) = Namespace::try_from(namespace.as_str()) {
        let tokens = &app.engine.tokens;
        tokens.delete(&pool.name, &namespace, token).await?;
        let holder = tokens.named_holder(&pool.name, &namespace, token);
        app.engine.end_waits(&holder.clone().into());
        if let Err(error) = app.engine.limits.delete(&holder).await {
            // The token is revoked all the same, and the answer must not deny it.
            tracing::warn!(
                pool = %pool.name, %namespace, %error,
                "failed to delete the limit of a deleted token; delete the token again to retry"
            );
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The pool of a new token, and the token without it. A single colon separates pool and token; two or more belong to
/// the token.
fn split_pool<'a>(asked_pool: &'a str, token: &'a str) -> (&'a str, &'a str) {
    match token.split_once(':') {
        Some((pool, rest)) if !rest.contains(':') => (pool, rest),
        _ => (asked_pool, token),
    }
}

/// A token with its pool in front, unless that is the default pool.
pub(super) fn with_pool(pool: &str, token: &str) -> String {
    match pool {
        DEFAULT_POOL => token.to_owned(),
        _ => format!("{pool}:{token}"),
    }
}

/// Reads the form in a body, which has the syntax of a query. Bodies of other types are read and ignored.
async fn read_form(
    headers: &HeaderMap,
    body: Body,
    app: &App,
) -> Result<Query<'static>, AdminError> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], |value| value.as_bytes());
    let is_form = kind.starts_with(b"application/x-www-form-urlencoded");
    let body = app.job_body.up_to(FORM_BYTES_MAX).read(body).await;
    let body = body.map_err(|_| AdminError::BodyUnreadable)?;
    let text = if is_form {
        String::from_utf8_lossy(&body.bytes).into_owned()
    } else {
        String::new()
    };
    Ok(Query::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_colon_names_the_pool() {
        assert_eq!(split_pool("", "t"), ("", "t"));
        assert_eq!(split_pool("a", "t"), ("a", "t"));
        assert_eq!(split_pool("a", "b:t"), ("b", "t"));
        assert_eq!(split_pool("a", "b:c:t"), ("a", "b:c:t"));
        assert_eq!(split_pool("a", ""), ("a", ""));
    }
}
