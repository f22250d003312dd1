//! `/ui/keys`: the API keys of all namespaces. A secret is shown once: in the answer to the form that creates its key.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use tidegate_core::v1::values::Timestamp;
use tidegate_engine::Engine;
use tidegate_store::{ApiKey, Damaged};

use super::super::action::{ActionTarget, Done, then};
use super::super::error::PageError;
use super::super::form::SubmittedForm;
use super::super::page::{Page, PageBlock};
use super::super::visit::Visit;
use super::super::{links, text};
use super::key_parts::{details, expiry, frame, scope_list};
use super::new_key::{create, create_form};
use crate::config::{AccountRole, DEFAULT_POOL};

/// About how many keys a page has: more if there are few in all (`hash-max-listpack-entries` of Redis).
const KEYS_PER_PAGE: u16 = 100;

pub(in super::super) async fn show(visit: Visit) -> Response {
    visit.show(page).await
}

async fn page(visit: Arc<Visit>) -> Result<Page, PageError> {
    let engine = &visit.dashboard.app.engine;
    let cursor = visit.parameter("cursor").map(str::parse).transpose();
    let cursor: Option<u64> = cursor
        .map_err(|_| PageError::Invalid("This page of the list does not exist.".to_owned()))?;
    let found = engine
        .keys
        .list(cursor.unwrap_or_default(), KEYS_PER_PAGE)
        .await?;
    let mut entries = found.entries;
    // Redis has them in no order: the newest first.
    entries.sort_by_key(|(id, entry)| match entry {
        Ok(key) => (std::cmp::Reverse(key.created_at_ms), id.clone()),
        Err(_) => (std::cmp::Reverse(u64::MAX), id.clone()),
    });
    let next = found.next.map(|next| next.to_string());
    let next = next.map(|next| links::with_query(links::KEYS, [("cursor", next.as_str())]));
    let list = html! {
        @if entries.is_empty() { p.hint { "There is no API key." } }
        @else { (key_table(&visit, &entries)) }
        nav.pages aria-label="Pages of the list" {
            @if cursor.is_some() { a href=(links::KEYS) { "First page" } }
            @if let Some(next) = next { a rel="next" href=(next) { "Next page" } }
        }
    };
    let create = match visit.may(AccountRole::Admin) {
        true => create_form(&visit),
        false => html! {},
    };
    Ok(frame(
        "API keys".to_owned(),
        vec![
            PageBlock::fixed("keys", list),
            PageBlock::fixed("create", create),
        ],
    ))
}

fn key_table(visit: &Visit, entries: &[(String, Result<ApiKey, Damaged>)]) -> Markup {
    let may_revoke = visit.may(AccountRole::Admin);
    html! {
        div.wide.roomy role="region" tabindex="0" aria-label="API keys" { table {
            thead { tr {
                th scope="col" { "Key" } th scope="col" { "For" } th scope="col" { "Namespace" } th scope="col" { "Scopes" }
                th scope="col" { "Created" } th scope="col" { "Expires" }
                @if may_revoke { th scope="col" { "Action" } }
            } }
            tbody {
                @for (id, entry) in entries {
                    tr {
                        td { code { (text::shortened(id, 100)) } }
                        @match entry {
                            Ok(key) => (cells(key)),
                            Err(damaged) => td colspan="5" {
                                span.badge.warn { "damaged" } " it is refused; revoke it. " (damaged.reason)
                            }
                        }
                        @if may_revoke { td { (revoke_form(visit, id, "Revoke", false)) } }
                    }
                }
            }
        } }
    }
}

fn cells(key: &ApiKey) -> Markup {
    html! {
        td { (key.description) }
        td { (key.namespaces.as_str()) @if &*key.pool != DEFAULT_POOL { " of pool " (key.pool) } }
        td { (scope_list(key)) }
        td { (text::time(Timestamp::saturating(key.created_at_ms))) }
        td { (expiry(key)) }
    }
}

fn revoke_form(visit: &Visit, id: &str, title: &str, is_confirmed: bool) -> Markup {
    html! {
        form.row method="post" action=(links::KEYS) {
            (visit.token.field())
            input type="hidden" name="id" value=(id);
            @if is_confirmed { input type="hidden" name="step" value="run"; }
            button.danger[is_confirmed] name="do" value="revoke" { (title) }
            @if is_confirmed { a.button href=(links::KEYS) { "Leave it" } }
        }
    }
}

/// `POST`: creates or revokes a key.
pub(in super::super) async fn act(visit: Visit, body: Body) -> Result<Response, PageError> {
    let form = visit.read_form(body).await?;
    visit.need(AccountRole::Admin)?;
    match form.get("do") {
        Some("create") => create(&visit, &form).await,
        Some("revoke") => revoke(&visit, &form).await,
        _ => Err(PageError::Invalid(
            "There is no such action for API keys.".to_owned(),
        )),
    }
}

async fn revoke(visit: &Visit, form: &SubmittedForm) -> Result<Response, PageError> {
    let engine: &Engine = &visit.dashboard.app.engine;
    let id = form.get("id").unwrap_or_default();
    let Some(entry) = engine.keys.get(id).await? else {
        return Ok(then(links::KEYS, Done::KeyGone).into_response());
    };
    if form.get("step") != Some("run") {
        let content = html! {
            p { "Within a second, servers refuse clients that use it, and end their waits for jobs. A revoked key cannot be brought back." }
            @match &entry {
                Ok(key) => (details(id, key)),
                Err(damaged) => p { code { (id) } " is damaged: " (damaged.reason) }
            }
            (revoke_form(visit, id, "Revoke it", true))
        };
        let page = frame(
            "Revoke an API key".to_owned(),
            vec![PageBlock::fixed("confirm", content)],
        );
        return Ok(visit.write(&page));
    }
    let target = ActionTarget::ApiKey(id);
    let deleted = engine.delete_key(id).await;
    let done = match deleted.inspect_err(|_| visit.log_unknown("revoke", target, ""))? {
        true => Done::KeyRevoked,
        false => Done::KeyGone,
    };
    if done == Done::KeyRevoked {
        visit.log("revoke", target, "");
    }
    Ok(then(links::KEYS, done).into_response())
}
