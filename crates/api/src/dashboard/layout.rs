//! The common parts of all pages.

use maud::{DOCTYPE, Markup, html};

use super::page::{Page, Section};
use super::{assets, links};
use crate::config::DEFAULT_POOL;

/// The parts of a page besides its content.
pub(super) struct Frame<'a> {
    /// The name and the role of the account.
    pub(super) account: &'a str,
    /// The outcome of the action before.
    pub(super) notice: Option<&'a str>,
}

pub(super) fn whole(frame: &Frame<'_>, page: &Page) -> Markup {
    let is_live = page.blocks.iter().any(|block| block.is_live);
    let body = html! {
        header.top {
            a.brand href=(links::OVERVIEW) { "Tidegate" }
            (menu(page))
            span.who { (frame.account) }
        }
        main #main data-live[is_live] data-seen=[page.seen.as_ref()] {
            @if !page.trail.is_empty() {
                nav.trail aria-label="Pages above this one" {
                    @for (text, link) in &page.trail { a href=(link) { (text) } " / " }
                }
            }
            h1 { (page.title) }
            @if let Some(text) = frame.notice {
                p.notice role="status" { (text) }
            }
            @for block in &page.blocks {
                section.news[block.is_news] id=(block.id) role=[block.is_news.then_some("status")] { (block.html) }
            }
        }
        footer {
            @if is_live { span #live-state role="status" { "As of the time when the page was loaded." } }
        }
    };
    document(&page.title, &body)
}

/// A page without a menu.
pub(super) fn bare(title: &str, content: &Markup) -> Markup {
    let body = html! {
        header.top { a.brand href=(links::OVERVIEW) { "Tidegate" } }
        main #main {
            h1 { (title) }
            (content)
        }
    };
    document(title, &body)
}

fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Tidegate" }
                link rel="icon" type="image/svg+xml" href=(assets::path("icon.svg"));
                link rel="stylesheet" href=(assets::path("dashboard.css"));
                script src=(assets::path("dashboard.js")) defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                (body)
            }
        }
    }
}

fn menu(page: &Page) -> Markup {
    let (pool, section) = match &page.place {
        Some((pool, section)) => (pool.as_str(), Some(*section)),
        None => (DEFAULT_POOL, None),
    };
    let entry = |text: &str, link: &str, is_here: bool| {
        let here = is_here.then_some("page");
        html! { a href=(link) aria-current=[here] { (text) } }
    };
    html! {
        nav.menu aria-label="Menu" {
            (entry("Overview", links::OVERVIEW, section.is_none()))
            (entry("Queues", &links::queues(pool), section == Some(Section::Queues)))
            (entry("Schedules", &links::schedules(pool), section == Some(Section::Schedules)))
            (entry("Relays", links::RELAYS, section == Some(Section::Relays)))
            (entry("Workers", &links::workers(pool), section == Some(Section::Workers)))
            (entry("Namespaces", &links::namespaces(pool), section == Some(Section::Namespaces)))
            (entry("API keys", links::KEYS, section == Some(Section::Keys)))
            (entry("System", &links::system(pool), section == Some(Section::System)))
            @if pool != DEFAULT_POOL { span.pool { "pool " (pool) } }
        }
    }
}
