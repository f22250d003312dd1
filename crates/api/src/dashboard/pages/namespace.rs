//! `/ui/POOL/namespaces`: the limits of one namespace, and how much of them it uses.

use std::sync::Arc;

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use tidegate_core::v1::namespace::NamespaceLimitUse;
use tidegate_engine::Pool;

use super::super::error::PageError;
use super::super::page::{Page, PageBlock, Section};
use super::super::visit::Visit;
use super::super::{links, text};
use super::namespaces::NamespaceChoice;

pub(in super::super) async fn show(visit: Visit, Path(pool): Path<String>) -> Response {
    visit.show_pool(&pool, page).await
}

async fn page(visit: Arc<Visit>, pool: Arc<Pool>) -> Result<Page, PageError> {
    let NamespaceChoice { mut known, chosen } = NamespaceChoice::of(&visit, &pool).await?;
    let engine = &visit.dashboard.app.engine;
    known.extend(engine.namespaces.with_quota());
    let chosen = chosen.or_else(|| known.first().cloned());
    let limits = match &chosen {
        Some(namespace) => Some(engine.namespace_use(&pool, namespace).await?),
        None => None,
    };
    let table = html! {
        @match &limits {
            None => p.hint { "There are no queues and no quotas." },
            Some(limits) => (limit_table(limits)),
        }
    };
    let choice = html! {
        form.row method="get" action=(links::namespaces(&pool.name)) {
            label { "Namespace"
                select name="namespace" {
                    @for namespace in &known {
                        option value=(namespace) selected[chosen.as_ref() == Some(namespace)] { (namespace) }
                    }
                }
            }
            button { "Show" }
        }
    };
    Ok(Page {
        title: format!("Namespaces of {}", pool.name),
        place: Some((pool.name.to_string(), Section::Namespaces)),
        trail: vec![],
        seen: None,
        blocks: vec![
            PageBlock::fixed("choice", choice),
            PageBlock::live("limits", table),
        ],
    })
}

fn limit_table(limits: &[NamespaceLimitUse]) -> Markup {
    html! {
        div.wide role="region" tabindex="0" aria-label="Limits" {
            table {
                thead { tr {
                    th scope="col" { "Limit" }
                    th.number scope="col" { "Used" }
                    th.number scope="col" { "At most" }
                } }
                tbody {
                    @for NamespaceLimitUse { name, used, max } in limits {
                        tr {
                            td { code { (name) } }
                            td.number { @if let Some(used) = used { (text::number(*used)) } @else { "–" } }
                            td.number { @if let Some(max) = max { (text::number(*max)) } @else { "not limited" } }
                        }
                    }
                }
            }
        }
        p.hint { "Only consumers that wait in this process are counted. A quota is set with " code { "tidegate namespace set" } "." }
    }
}
