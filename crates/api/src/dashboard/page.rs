//! A page before it is written.

use maud::Markup;

/// A page: blocks, one below the other.
pub(super) struct Page {
    pub(super) title: String,
    /// The pool that it is about, and the entry of the menu that leads to it.
    pub(super) place: Option<(String, Section)>,
    /// The pages above it: text and address.
    pub(super) trail: Vec<(String, String)>,
    /// The content of blocks that are not live, as a short text: its stream has it as the parameter [`SEEN`].
    pub(super) seen: Option<String>,
    pub(super) blocks: Vec<PageBlock>,
}

/// The parameter of the address of a stream with the content of the page when it was loaded.
pub(super) const SEEN: &str = "seen";

/// The entries of the menu besides the overview. Relays and keys are common to all pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Queues,
    Schedules,
    Relays,
    Workers,
    Namespaces,
    Keys,
    System,
}

/// A part of a page.
pub(super) struct PageBlock {
    pub(super) id: &'static str,
    /// Whether it is sent again when it has changed. Blocks with forms are not: they would lose what was typed.
    pub(super) is_live: bool,
    /// Whether it stays in view, at the end of the window, and is read out when it changes.
    pub(super) is_news: bool,
    pub(super) html: Markup,
}

impl PageBlock {
    pub(super) const fn live(id: &'static str, html: Markup) -> Self {
        Self {
            id,
            is_live: true,
            is_news: false,
            html,
        }
    }

    /// The changes since the page was loaded. It must be the last block.
    pub(super) const fn news(html: Markup) -> Self {
        Self {
            id: "news",
            is_live: true,
            is_news: true,
            html,
        }
    }

    pub(super) const fn fixed(id: &'static str, html: Markup) -> Self {
        Self {
            id,
            is_live: false,
            is_news: false,
            html,
        }
    }
}
