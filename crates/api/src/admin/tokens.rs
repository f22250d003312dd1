//! Making, listing and deleting tokens.
//!
//! * `GET /token/NAMESPACE?pool=`
//! * `POST /token/NAMESPACE?pool=` with `description` and, if it is to be a certain one, `token`: in the
//!   query or in a form.
//! * `DELETE /token/NAMESPACE/TOKEN`, where the token may have its pool in front. Its limit is deleted with it, if the
//!   server of the limits answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use tidegate_core::{InvalidName, Namespace};
use tidegate_store::{StoreError, TokenCreated};

use crate::app::App;
use crate::body::Reading;
use crate::config::DEFAULT_POOL;
use crate::lmstfy::error::Refusal;
use crate::lmstfy::json;
use crate::lmstfy::query::Query;
use crate::metrics::storage_failed;
use crate::pool::Pool;
use crate::revocation::end_waits;
use crate::tokens::generate;

const USER_TOKEN_LENGTH_MIN: usize = 20;
const FORM_BYTES_MAX: usize = 64 * 1024;

/// Why a request about tokens is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenRefusal {
    Description,
    TooShort,
    NamespaceTooLong,
    NamespaceForbidden,
    NoSuchPool,
    Exists,
    Body,
    Internal,
}

/// What the wire answers to what cannot be.
#[derive(Serialize)]
pub(super) struct ErrorText {
    pub(super) error: &'static str,
}

impl IntoResponse for TokenRefusal {
    fn into_response(self) -> Response<Body> {
        let error = match self {
            Self::Description => "invalid description",
            Self::TooShort => "the user token was too short",
            Self::NamespaceTooLong => "the namespace name was too long",
            Self::NamespaceForbidden => "namespace name contains forbidden characters",
            Self::NoSuchPool => "the pool was not exists",
            Self::Exists => "the token has already existed",
            Self::Body => return Refusal::BodyUnreadable.into_response(),
            Self::Internal => return Refusal::Internal.into_response(),
        };
        json::answer(StatusCode::BAD_REQUEST, &ErrorText { error })
    }
}

impl From<StoreError> for TokenRefusal {
    fn from(error: StoreError) -> Self {
        storage_failed(&error);
        Self::Internal
    }
}

#[derive(Serialize)]
struct TokenList {
    tokens: BTreeMap<String, String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path(namespace): Path<String>,
    query: Query<'static>,
) -> Result<Response<Body>, TokenRefusal> {
    let asked = query.get("pool").unwrap_or_default();
    let pool = app.pool(&asked).ok_or(TokenRefusal::NoSuchPool)?;
    let tokens = match Namespace::try_from(namespace.as_str()) {
        Ok(namespace) => app.tokens.list(&pool.name, &namespace).await?,
        // No token opens what cannot be.
        Err(_) => Vec::new(),
    };
    // With a pool in the question the answer has it too.
    let shown = |token: String| match &*asked {
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
) -> Result<Response<Body>, TokenRefusal> {
    let form = read_form(&headers, body, &app).await?;
    let wish = |name| {
        query
            .get(name)
            .or_else(|| form.get(name))
            .unwrap_or_default()
    };
    let description = wish("description");
    if description.is_empty() {
        return Err(TokenRefusal::Description);
    }
    let user_token = wish("token");
    let asked = query.get("pool").unwrap_or_default();
    let (pool, token) = placed(&asked, &user_token);
    // The name of a pool makes no token harder to guess.
    if !user_token.is_empty() && token.len() < USER_TOKEN_LENGTH_MIN {
        return Err(TokenRefusal::TooShort);
    }
    let namespace = Namespace::try_from(namespace.as_str()).map_err(|error| match error {
        InvalidName::TooLong => TokenRefusal::NamespaceTooLong,
        InvalidName::ForbiddenCharacters => TokenRefusal::NamespaceForbidden,
    })?;
    let pool = app.pool(pool).ok_or(TokenRefusal::NoSuchPool)?;
    let token = if token.is_empty() {
        generate()
    } else {
        token.to_owned()
    };
    match app
        .tokens
        .create(&pool.name, &namespace, &token, &description)
        .await?
    {
        TokenCreated::AlreadyExists => Err(TokenRefusal::Exists),
        TokenCreated::Done => {
            let token = with_pool(pool, token);
            Ok(json::pretty_answer(
                StatusCode::CREATED,
                &NewToken { token },
            ))
        }
    }
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
) -> Result<StatusCode, TokenRefusal> {
    let (pool, token) = token.split_once(':').unwrap_or(("", &token));
    let pool = app.pool(pool).ok_or(TokenRefusal::NoSuchPool)?;
    if let Ok(namespace) = Namespace::try_from(namespace.as_str()) {
        app.tokens.delete(&pool.name, &namespace, token).await?;
        let holder = app.tokens.named_holder(&pool.name, &namespace, token);
        end_waits(&app, &holder);
        if let Err(error) = app.limits.delete(&holder).await {
            // The token is revoked all the same, and the answer must not deny it.
            storage_failed(&error);
            tracing::warn!(
                pool = %pool.name, %namespace, %error,
                "failed to delete the limit of a token that was deleted; delete the token again to repeat it"
            );
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Where a token goes, and its bare text. One colon in it names its pool; with more of them the colons
/// belong to the token.
fn placed<'a>(asked_pool: &'a str, token: &'a str) -> (&'a str, &'a str) {
    match token.split_once(':') {
        Some((pool, rest)) if !rest.contains(':') => (pool, rest),
        _ => (asked_pool, token),
    }
}

fn with_pool(pool: &Pool, token: String) -> String {
    if &*pool.name == DEFAULT_POOL {
        token
    } else {
        format!("{}:{token}", pool.name)
    }
}

/// The form in a body, which has the form of a query. Other bodies mean nothing.
async fn read_form(
    headers: &HeaderMap,
    body: Body,
    app: &App,
) -> Result<Query<'static>, TokenRefusal> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], |value| value.as_bytes());
    let is_form = kind.starts_with(b"application/x-www-form-urlencoded");
    let reading = Reading {
        bytes_max: FORM_BYTES_MAX,
        ..app.job_body.clone()
    };
    let body = reading.read(body).await.map_err(|_| TokenRefusal::Body)?;
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
        assert_eq!(placed("", "t"), ("", "t"));
        assert_eq!(placed("a", "t"), ("a", "t"));
        assert_eq!(placed("a", "b:t"), ("b", "t"));
        assert_eq!(placed("a", "b:c:t"), ("a", "b:c:t"));
        assert_eq!(placed("a", ""), ("a", ""));
    }
}
