//! `/v1/NAMESPACE/keys`: creates, lists and revokes API keys. The key of a request is the bound of the keys that it
//! manages; an operator manages all.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tidegate_core::v1::keys::{
    CreateKeyBody, CreatedKey, DamagedKey, KeyOutcome, KeyPage, KeySecret, KeyView, RevokedKey,
};
use tidegate_core::v1::problem::{InvalidRequest, ProblemCode};
use tidegate_core::v1::queue::ListQuery;
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{NamespaceGrant, Scopes};
use tidegate_engine::{CreateKeyError, Grant, GrantError, NewApiKey};
use tidegate_store::ApiKey;

use super::answer::json_answer;
use super::error::NativeError;
use super::native_request::NativeRequest;

pub(super) async fn create(mut request: NativeRequest) -> Result<Response<Body>, NativeError> {
    request.without_query()?;
    let mut body: CreateKeyBody = request.read_json().await?;
    let secret = body.secret.take();
    let own = &request.principal.grant;
    let new = requested_key(body, &request.namespaces, &own.pool);
    if !request.is_of_operator() {
        own.check_new_key(&new.grant).map_err(refused)?;
    }
    let engine = &request.app.engine;
    let created = match secret {
        None => engine.create_key(new).await,
        Some(_) if !request.is_of_operator() => {
            let detail =
                "only an operator, on the admin port, chooses the secret of a key; leave it out";
            return Err(InvalidRequest::of_field("secret", detail).into());
        }
        Some(KeySecret(text)) => engine.create_chosen_key(text, new).await,
    };
    let created = created.map_err(not_created)?;
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
    let page = match &request.namespaces {
        NamespaceGrant::All => keys.list(cursor, limit).await?,
        NamespaceGrant::One(namespace) => keys.list_of(namespace, cursor, limit).await?,
    };
    let (mut items, mut damaged) = (Vec::new(), Vec::new());
    for (id, entry) in &page.entries {
        match entry {
            Ok(key) if is_within(&request, key) => items.extend(view(id, key)),
            Err(entry) if request.is_of_operator() => damaged.push(DamagedKey {
                id: id.clone(),
                problem: entry.reason.clone(),
            }),
            Ok(_) | Err(_) => {}
        }
    }
    let next = page.next.map(|next| next.to_string().try_into());
    let answer = KeyPage {
        items,
        damaged,
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
        Some(Ok(key)) if is_within(&request, &key) => {}
        Some(Err(_)) if request.is_of_operator() => {}
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

/// The key that a request asks for. If the body names no namespaces or no pool, the key has these.
pub(crate) fn requested_key(
    body: CreateKeyBody,
    namespaces: &NamespaceGrant,
    pool: &Arc<str>,
) -> NewApiKey {
    let named_pool = body.pool.map(|pool| Arc::from(pool.as_str()));
    NewApiKey {
        grant: Grant {
            pool: named_pool.unwrap_or_else(|| Arc::clone(pool)),
            namespaces: body.namespace.unwrap_or_else(|| namespaces.clone()),
            scopes: body.scopes.into_iter().collect::<Scopes>(),
            expires_at_ms: body.expires_at.map(|end| end.as_ms()),
        },
        description: body.description,
    }
}

/// Whether a key gives access to nothing beyond the namespaces and the pool of the key of the request. An operator
/// manages the keys of all pools.
fn is_within(request: &NativeRequest, key: &ApiKey) -> bool {
    let own = &request.principal.grant;
    let is_of_pool = request.is_of_operator() || *own.pool == *key.pool;
    is_of_pool && own.namespaces.includes(&key.namespaces)
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
        CreateKeyError::Expired { .. } => "expires_at",
        CreateKeyError::NotAKey => "secret",
        CreateKeyError::AlreadyExists => {
            return NativeError::of(ProblemCode::KeyExists).at("secret");
        }
        CreateKeyError::Failed(error) => return error.into(),
    };
    InvalidRequest::of_field(field, error.to_string()).into()
}
