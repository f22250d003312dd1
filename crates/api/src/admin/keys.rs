//! Creates, lists, shows and deletes API keys.
//!
//! * `POST /keys` with a JSON body: `namespace`, `scopes`, `description`, and optionally `pool`, `expires_at_ms` and
//!   `secret`, if the operator chooses it. Only this answer has the secret.
//! * `GET /keys?limit=&cursor=`: a page of keys, in no order.
//! * `GET` and `DELETE /keys/ID`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_core::{NamespaceGrant, Scope, Scopes};
use tidegate_engine::{Grant, NewApiKey};
use tidegate_store::{ApiKey, ApiKeyEntry};

use super::error::AdminError;
use crate::app::App;
use crate::config::DEFAULT_POOL;
use crate::http::json;
use crate::http::query::Query;

const BODY_BYTES_MAX: usize = 64 * 1024;
const PAGE_KEYS: u16 = 100;
const PAGE_KEYS_MAX: u16 = 1000;

const BAD_LIMIT: &str = "limit should be from 1 to 1000";
const BAD_CURSOR: &str = "cursor should be next of the page before";

/// A key to create. Unknown fields are refused, so that a misspelled expiry creates no key that lasts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewKeyBody {
    namespace: String,
    scopes: Vec<String>,
    description: String,
    pool: Option<String>,
    expires_at_ms: Option<u64>,
    secret: Option<String>,
}

/// A key as it is shown. The answers are not of lmstfy, so the fields need not be in alphabetical order.
#[derive(Serialize)]
struct AdminKeyView<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    #[serde(flatten)]
    grant: GrantView<'a>,
    description: &'a str,
    created_at_ms: u64,
}

/// What the holder of a key may do.
#[derive(Serialize)]
struct GrantView<'a> {
    namespace: &'a str,
    pool: &'a str,
    scopes: Vec<&'static str>,
    expires_at_ms: Option<u64>,
}

/// An entry that cannot be read.
#[derive(Serialize)]
struct DamagedView<'a> {
    id: &'a str,
    damaged: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EntryView<'a> {
    Key(AdminKeyView<'a>),
    Damaged(DamagedView<'a>),
}

#[derive(Serialize)]
struct KeyListView<'a> {
    items: Vec<EntryView<'a>>,
    next: Option<String>,
}

impl<'a> AdminKeyView<'a> {
    fn new(id: &'a str, stored: &'a ApiKey) -> Self {
        Self {
            id,
            secret: None,
            grant: GrantView {
                namespace: stored.namespaces.as_str(),
                pool: &stored.pool,
                scopes: stored.scopes.iter().map(Scope::name).collect(),
                expires_at_ms: stored.expires_at_ms,
            },
            description: &stored.description,
            created_at_ms: stored.created_at_ms,
        }
    }
}

impl<'a> EntryView<'a> {
    fn new(id: &'a str, entry: &'a ApiKeyEntry) -> Self {
        match entry {
            ApiKeyEntry::Key(stored) => Self::Key(AdminKeyView::new(id, stored)),
            ApiKeyEntry::Damaged(damaged) => Self::Damaged(DamagedView {
                id,
                damaged: &damaged.reason,
            }),
        }
    }
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    body: Body,
) -> Result<Response<Body>, AdminError> {
    let body = app.job_body.up_to(BODY_BYTES_MAX).read(body).await;
    let body = body.map_err(|_| AdminError::BodyUnreadable)?;
    let (new, chosen) = parse_new_key(&body.bytes)?;
    let created = match chosen {
        None => app.engine.create_key(new).await?,
        Some(text) => app.engine.create_chosen_key(text, new).await?,
    };
    let shown = AdminKeyView {
        secret: Some(&created.text),
        ..AdminKeyView::new(created.id.as_str(), &created.key)
    };
    Ok(json::answer(StatusCode::CREATED, &shown))
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    query: Query<'static>,
) -> Result<Response<Body>, AdminError> {
    let (cursor, limit) = parse_page(&query)?;
    let page = app.engine.keys.list(cursor, limit).await?;
    let items = page.entries.iter();
    let shown = KeyListView {
        items: items.map(|(id, entry)| EntryView::new(id, entry)).collect(),
        // A cursor may be larger than the numbers that JSON readers keep exactly.
        next: page.next.map(|next| next.to_string()),
    };
    Ok(json::answer(StatusCode::OK, &shown))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response<Body>, AdminError> {
    let entry = app.engine.keys.get(&id).await?;
    let entry = entry.ok_or(AdminError::KeyNotFound)?;
    Ok(json::answer(StatusCode::OK, &EntryView::new(&id, &entry)))
}

/// An unknown id is an error: it may be a mistake, and the key that was meant would stay valid.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<StatusCode, AdminError> {
    match app.engine.delete_key(&id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(AdminError::KeyNotFound),
    }
}

/// The key to create, and its text if the operator has chosen it.
fn parse_new_key(body: &[u8]) -> Result<(NewApiKey, Option<String>), AdminError> {
    let body: NewKeyBody =
        json::parse_object(body).map_err(|error| AdminError::NotAKey(error.to_string()))?;
    let scope = |name: &String| {
        let scope = Scope::of_name(name);
        scope.ok_or_else(|| AdminError::UnknownScope(name.clone()))
    };
    let scopes: Result<Scopes, AdminError> = body.scopes.iter().map(scope).collect();
    let namespaces = NamespaceGrant::try_from(&*body.namespace).map_err(AdminError::KeyNamespace);
    let pool = body.pool.as_deref().unwrap_or(DEFAULT_POOL);
    let new = NewApiKey {
        grant: Grant {
            pool: pool.into(),
            namespaces: namespaces?,
            scopes: scopes?,
            expires_at_ms: body.expires_at_ms,
        },
        description: body.description,
    };
    Ok((new, body.secret))
}

/// The cursor and the number of keys of a page.
fn parse_page(query: &Query<'_>) -> Result<(u64, u16), AdminError> {
    let limit = query.number("limit", PAGE_KEYS).ok();
    let limit = limit.filter(|limit| (1..=PAGE_KEYS_MAX).contains(limit));
    let limit = limit.ok_or(AdminError::BadPage(BAD_LIMIT))?;
    let cursor = query.number("cursor", 0);
    let cursor = cursor.map_err(|_| AdminError::BadPage(BAD_CURSOR))?;
    Ok((cursor, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_needs_a_namespace_scopes_and_a_description() {
        let body = r#"{"namespace":"shop","scopes":["read","publish"],"description":"x"}"#;
        let (new, chosen) = parse_new_key(body.as_bytes()).unwrap();
        assert_eq!(chosen, None);
        assert_eq!(new.grant.namespaces.as_str(), "shop");
        assert_eq!(new.grant.scopes.to_string(), "publish,read");
        assert_eq!(
            (&*new.grant.pool, new.grant.expires_at_ms),
            ("default", None)
        );
        let body = r#"{"namespace":"*","scopes":[],"description":"","pool":"p","expires_at_ms":7,"secret":"k"}"#;
        let (new, chosen) = parse_new_key(body.as_bytes()).unwrap();
        assert_eq!(chosen.as_deref(), Some("k"));
        assert_eq!(new.grant.namespaces, NamespaceGrant::All);
        assert_eq!((&*new.grant.pool, new.grant.expires_at_ms), ("p", Some(7)));
        assert!(new.grant.scopes.is_empty());
    }

    #[test]
    fn a_body_that_is_no_key_is_refused_with_the_reason() {
        for (body, reason) in [
            ("", "EOF"),
            ("[]", "invalid type"),
            ("{}", "missing field `namespace`"),
            (
                r#"{"namespace":"n","scopes":[]}"#,
                "missing field `description`",
            ),
            (
                r#"{"namespace":"n","scopes":"read","description":"x"}"#,
                "invalid type",
            ),
            (
                r#"{"namespace":"n","scopes":[],"description":"x","expires_at":1}"#,
                "unknown field `expires_at`",
            ),
            (
                r#"{"namespace":"n","scopes":[],"description":"x","expires_at_ms":-1}"#,
                "invalid value",
            ),
            (
                r#"{"namespace":"n","scopes":["write"],"description":"x"}"#,
                "unknown scope \"write\"",
            ),
            (
                r#"{"namespace":"a b","scopes":[],"description":"x"}"#,
                "namespace should be * or a name",
            ),
        ] {
            let error = parse_new_key(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{body}: {error}");
        }
    }

    #[test]
    fn a_page_has_a_bounded_number_of_keys() {
        let page = |query: &str| parse_page(&Query::new(query));
        assert_eq!(page(""), Ok((0, 100)));
        assert_eq!(
            page("limit=1000&cursor=18446744073709551615"),
            Ok((u64::MAX, 1000))
        );
        for limit in ["0", "1001", "", "x", "-1"] {
            let outcome = page(&format!("limit={limit}"));
            assert_eq!(outcome, Err(AdminError::BadPage(BAD_LIMIT)), "{limit}");
        }
        for cursor in ["", "x", "18446744073709551616"] {
            let outcome = page(&format!("cursor={cursor}"));
            assert_eq!(outcome, Err(AdminError::BadPage(BAD_CURSOR)), "{cursor}");
        }
    }
}
