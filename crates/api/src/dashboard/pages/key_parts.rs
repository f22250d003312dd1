//! Parts of pages about API keys.

use maud::{Markup, html};
use tidegate_core::Scope;
use tidegate_core::v1::values::Timestamp;
use tidegate_store::ApiKey;

use super::super::page::{Page, PageBlock, Section};
use super::super::text;
use crate::config::DEFAULT_POOL;

/// A page about keys.
pub(super) fn frame(title: String, blocks: Vec<PageBlock>) -> Page {
    Page {
        title,
        place: Some((DEFAULT_POOL.to_owned(), Section::Keys)),
        trail: vec![],
        seen: None,
        blocks,
    }
}

pub(super) fn scope_list(key: &ApiKey) -> String {
    let names: Vec<&str> = key.scopes.iter().map(Scope::name).collect();
    names.join(", ")
}

pub(super) fn expiry(key: &ApiKey) -> Markup {
    html! {
        @match key.expires_at_ms.map(Timestamp::saturating) {
            None => "never",
            Some(end) => {
                @if text::is_past(end) { span.badge.warn { "expired" } " " }
                (text::time(end))
            }
        }
    }
}

/// The rights of a key, as a list.
pub(super) fn details(id: &str, key: &ApiKey) -> Markup {
    html! {
        dl {
            dt { "Key" } dd { code { (id) } }
            dt { "For" } dd { (key.description) }
            dt { "Namespace" } dd { (key.namespaces.as_str()) " of pool " (key.pool) }
            dt { "Scopes" } dd { (scope_list(key)) }
            dt { "Created" } dd { (text::time(Timestamp::saturating(key.created_at_ms))) }
            dt { "Expires" } dd { (expiry(key)) }
        }
    }
}
