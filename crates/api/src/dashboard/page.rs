//! A page before it is written.

use maud::Markup;

/// A page: blocks, one below the other.
pub(super) struct Page {
    pub(super) title: String,
    /// The pool that it is about, and the entry of the menu that leads to it.
    pub(super) place: Option<(String, Section)>,
    /// The pages above it: text and address.
    pub(super) trail: Vec<(String, String)>,
    pub(super) blocks: Vec<PageBlock>,
}

/// The entries of the menu that are about a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Queues,
    Schedules,
    Workers,
    System,
}

/// A part of a page.
pub(super) struct PageBlock {
    pub(super) id: &'static str,
    /// Whether it is sent again when it has changed. Blocks with forms are not: they would lose what was typed.
    pub(super) is_live: bool,
    pub(super) html: Markup,
}

impl PageBlock {
    pub(super) const fn live(id: &'static str, html: Markup) -> Self {
        Self {
            id,
            is_live: true,
            html,
        }
    }

    pub(super) const fn fixed(id: &'static str, html: Markup) -> Self {
        Self {
            id,
            is_live: false,
            html,
        }
    }
}
