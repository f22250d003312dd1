//! The form that creates an API key, and its answer: the only page with the secret.

use axum::response::Response;
use maud::{Markup, html};
use serde_json::json;
use tidegate_core::limits::{ConfigurableLimits, DESCRIPTION_BYTES_MAX};
use tidegate_core::v1::input::read_body;
use tidegate_core::v1::keys::CreateKeyBody;
use tidegate_core::v1::values::DurationMs;
use tidegate_core::{ApiKeyId, NamespaceGrant, Scope};
use tidegate_engine::{CreateKeyError, CreatedApiKey, Engine, NewApiKey, generate_key_id};

use super::super::action::ActionTarget;
use super::super::error::PageError;
use super::super::form::SubmittedForm;
use super::super::links;
use super::super::page::PageBlock;
use super::super::visit::Visit;
use super::key_parts::{details, frame};
use crate::config::DEFAULT_POOL;
use crate::v1::requested_key;

/// The scopes, with the use of each.
const SCOPES: [(Scope, &str); 4] = [
    (Scope::Publish, "publish jobs, change and cancel them"),
    (Scope::Consume, "reserve jobs, and end them"),
    (Scope::Read, "look at jobs, payloads and lists"),
    (
        Scope::Admin,
        "set policies, relays, schedules and keys, purge and delete",
    ),
];

pub(super) fn create_form(visit: &Visit) -> Markup {
    let pools: Vec<&str> = visit
        .dashboard
        .app
        .engine
        .pools()
        .map(|it| &*it.name)
        .collect();
    html! {
        h2 { "Create an API key" }
        form method="post" action=(links::KEYS) {
            (visit.token.field())
            input type="hidden" name="do" value="create";
            // Sent twice, the form creates one key.
            input type="hidden" name="new_id" value=(generate_key_id());
            div.row {
                label { "Purpose" input name="description" required maxlength=(DESCRIPTION_BYTES_MAX); }
                label { "Namespace, * = all" input name="namespace" required maxlength="255"; }
                @if pools.len() > 1 {
                    label { "Pool"
                        select name="pool" { @for pool in pools { option value=(pool) selected[pool == DEFAULT_POOL] { (pool) } } }
                    }
                }
                label { "Expires in, as 90d; empty = never" input name="expires_in"; }
            }
            fieldset {
                legend { "Scopes" }
                @for (scope, what) in SCOPES {
                    label.check {
                        input type="checkbox" name="scope" value=(scope.name());
                        span { strong { (scope.name()) } ": " (what) }
                    }
                }
            }
            p.row { button { "Create the key" } }
        }
    }
}

/// Creates the key of a form.
pub(super) async fn create(visit: &Visit, form: &SubmittedForm) -> Result<Response, PageError> {
    let engine = &visit.dashboard.app.engine;
    let id = ApiKeyId::try_from(form.get("new_id").unwrap_or_default());
    let id = id.map_err(|_| PageError::Invalid("Load the page with the form again.".to_owned()))?;
    let new = new_key(engine, form).await?;
    let detail = format!(
        "namespace={} scopes={} description={}",
        new.grant.namespaces.as_str(),
        new.grant.scopes,
        new.description
    );
    let target = ActionTarget::ApiKey(id.as_str());
    let created = match engine.create_key_once(id, new).await {
        Ok(created) => created,
        Err(CreateKeyError::Failed(error)) => {
            visit.log_unknown("create", target, &detail);
            return Err(error.into());
        }
        Err(CreateKeyError::AlreadyExists) => return Err(sent_twice(id)),
        Err(other) => return Err(PageError::Invalid(other.to_string())),
    };
    visit.log("create", target, &detail);
    let page = frame(
        "API key created".to_owned(),
        vec![PageBlock::fixed("created", created_block(&created))],
    );
    Ok(visit.write(&page))
}

fn sent_twice(id: ApiKeyId) -> PageError {
    PageError::Invalid(format!(
        "This form was sent before, and its key was created: {id}. If you have not seen its secret, revoke it and create another."
    ))
}

fn created_block(created: &CreatedApiKey) -> Markup {
    html! {
        p.notice role="status" {
            "This is the key with its secret. " strong { "It is not shown again" } ", since only its hash is stored: copy it now."
        }
        pre #secret tabindex="0" { (created.text) }
        (details(created.id.as_str(), &created.key))
        p { a.button href=(links::KEYS) { "Back to the keys" } }
    }
}

/// The key that a form describes, checked as the native API checks it.
async fn new_key(engine: &Engine, form: &SubmittedForm) -> Result<NewApiKey, PageError> {
    let invalid = |field: &str, detail: &str| PageError::Invalid(format!("{field}: {detail}"));
    let scopes = form.only(&["scope"]).into_iter().map(|(_, scope)| scope);
    let mut body = json!({
        "scopes": scopes.collect::<Vec<_>>(),
        "description": form.get("description").unwrap_or_default(),
        "namespace": form.get("namespace").unwrap_or_default(),
    });
    if let Some(pool) = form.get("pool") {
        body["pool"] = pool.into();
    }
    if let Some(expires_in) = form.get("expires_in") {
        let expires_in: Result<DurationMs, _> = expires_in.parse();
        let expires_in = expires_in.map_err(|error| invalid("expires_in", &error.to_string()))?;
        let now_ms = engine.keys.now_ms().await?;
        body["expires_at"] = now_ms.saturating_add(expires_in.as_ms()).into();
    }
    let read = read_body(body.to_string().as_bytes(), &ConfigurableLimits::default());
    let body: CreateKeyBody = read.map_err(|error| {
        let field = error.field.as_deref().unwrap_or("form");
        invalid(field, &error.detail)
    })?;
    Ok(requested_key(
        body,
        &NamespaceGrant::All,
        &DEFAULT_POOL.into(),
    ))
}
