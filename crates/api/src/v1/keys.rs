//! `/v1/NAMESPACE/keys`: creates, lists and revokes API keys, within what the key of the request allows.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::v1::keys::{
    CreateKeyBody, CreatedKey, KeyOutcome, KeyPage, KeySecret, KeyView, RevokedKey,
};
use tidegate_core::v1::problem::{InvalidRequest, ProblemCode};
use tidegate_core::v1::queue::ListQuery;
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{NamespaceGrant, Scopes};
use tidegate_engine::{CreateKeyError, Grant, GrantError, NewApiKey};
use tidegate_store::{ApiKey, ApiKeyEntry};

use super::answer::json_answer;
use super::error::NativeError;
use super::native_request::NativeRequest;

pub(super) async fn create(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let body: CreateKeyBody = request.read_json().await?;
    let path = NamespaceGrant::One(request.namespace.clone());
    let namespaces = body.namespace.unwrap_or(path);
    let own = &request.principal.grant;
    let pool = body.pool.as_ref().map(|pool| Arc::from(pool.as_str()));
    let grant = Grant {
        pool: pool.unwrap_or_else(|| Arc::clone(&own.pool)),
        namespaces,
        scopes: body.scopes.iter().copied().collect::<Scopes>(),
        expires_at_ms: body.expires_at.map(|end| end.as_ms()),
    };
    own.check_new_key(&grant).map_err(refused)?;
    let new = NewApiKey {
        grant,
        description: body.description,
    };
    let created = request
        .app
        .engine
        .create_key(new)
        .await
        .map_err(not_created)?;
    let answer = CreatedKey {
        outcome: KeyOutcome::Created,
        secret: KeySecret(created.text),
        key: view(created.id.as_str(), &created.key).ok_or_else(NativeError::internal)?,
    };
    Ok(json_answer(StatusCode::CREATED, &answer))
}

pub(super) async fn list(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    let query: ListQuery = request.read_query()?;
    let cursor = match &query.cursor {
        None => 0,
        Some(cursor) => cursor.as_str().parse().map_err(|_| {
            InvalidRequest::of_field("cursor", "send the cursor as `next` of the page before")
        })?,
    };
    let (keys, limit) = (&request.app.engine.keys, query.limit.get());
    // The keys of other namespaces, which may be many, cost the holder of a key for one nothing.
    let page = match &request.principal.grant.namespaces {
        NamespaceGrant::All => keys.list(cursor, limit).await?,
        NamespaceGrant::One(own) => keys.list_of(own, cursor, limit).await?,
    };
    let shown = page.entries.iter().filter_map(|(id, entry)| match entry {
        ApiKeyEntry::Key(key) if is_within(&request, key) => view(id, key),
        ApiKeyEntry::Key(_) | ApiKeyEntry::Damaged(_) => None,
    });
    let next = page.next.map(|next| next.to_string().try_into());
    let answer = KeyPage {
        items: shown.collect(),
        next: next.transpose().map_err(|_| NativeError::internal())?,
    };
    Ok(json_answer(StatusCode::OK, &answer))
}

pub(super) async fn revoke(request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let id = request.key_id()?;
    let keys = &request.app.engine.keys;
    let not_found = || NativeError::of(ProblemCode::KeyNotFound);
    match keys.get(&id).await? {
        Some(ApiKeyEntry::Key(key)) if is_within(&request, &key) => {}
        _ => return Err(not_found()),
    }
    if !request.app.engine.delete_key(&id).await? {
        return Err(not_found());
    }
    let answer = RevokedKey {
        outcome: KeyOutcome::Revoked,
        id,
    };
    Ok(json_answer(StatusCode::OK, &answer))
}

/// Whether a key gives access to nothing beyond the namespaces and the pool of the key of the request.
fn is_within(request: &NativeRequest, key: &ApiKey) -> bool {
    let own = &request.principal.grant;
    *own.pool == *key.pool && own.namespaces.includes(&key.namespaces)
}

fn view(id: &str, key: &ApiKey) -> Option<KeyView> {
    Some(KeyView {
        id: id.to_owned(),
        namespace: key.namespaces.clone(),
        pool: key.pool.parse().ok()?,
        scopes: key.scopes.iter().collect(),
        description: key.description.to_string(),
        created_at: Timestamp::saturating(key.created_at_ms),
        expires_at: key.expires_at_ms.map(Timestamp::saturating),
    })
}

fn refused(error: GrantError) -> NativeError {
    let code = match error {
        GrantError::Namespace => ProblemCode::NamespaceForbidden,
        GrantError::Scope(_) | GrantError::Pool | GrantError::Expiry => ProblemCode::ScopeMissing,
    };
    NativeError::new(code, error.to_string())
}

fn not_created(error: CreateKeyError) -> NativeError {
    let field = match error {
        CreateKeyError::PoolNotFound => "pool",
        CreateKeyError::NoScope => "scopes",
        CreateKeyError::Description => "description",
        CreateKeyError::Expired { now_ms } => {
            let now = Timestamp::saturating(now_ms);
            let detail = format!("expires_at must be later than the clock of Redis, {now}");
            return InvalidRequest::of_field("expires_at", detail).into();
        }
        // The native API chooses the texts of keys itself.
        CreateKeyError::NotAKey | CreateKeyError::AlreadyExists => return NativeError::internal(),
        CreateKeyError::Failed(error) => return error.into(),
    };
    InvalidRequest::of_field(field, error.to_string()).into()
}
