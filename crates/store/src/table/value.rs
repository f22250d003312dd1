//! A kind of value that a table stores.

use std::fmt;

use tidegate_core::NamespaceLimits;

/// The hash that has an entry.
#[derive(Debug, Clone, Copy)]
pub enum TableHash {
    /// One hash has the entries of all namespaces. A field is `namespace/name`.
    Shared(&'static str),
    /// Each namespace has a hash, whose key this function returns. A field is a name.
    OfNamespace(fn(&str) -> String),
}

/// A value that a table stores.
pub trait TableValue: Sized {
    /// The name of an entry. Its text is `namespace/name`.
    type Name: Clone + Ord + fmt::Display + for<'a> TryFrom<&'a str>;

    /// Where the entries are.
    const HASH: TableHash;

    /// The entries, as a field of [`NamespaceLimits`].
    const KIND: &'static str;

    /// About how many entries one call of a list reads.
    const ENTRIES_PER_CALL: u64 = 500;

    /// How many changes the table lists.
    const CHANGES_LISTED: u64 = 0;

    /// The key of a hash in the same slot that loses the field of an entry which is removed.
    const REPORTS: Option<&'static str> = None;

    /// The most entries of a namespace; `None` = not limited.
    fn max(limits: NamespaceLimits) -> Option<u64>;

    /// Reads the text of a value.
    ///
    /// # Errors
    /// The reason why the text cannot be read, without secrets.
    fn parse(text: &str) -> Result<Self, String>;

    /// The text of the value. If it is empty, no entry is stored.
    ///
    /// # Errors
    /// The reason why the value is invalid.
    fn to_text(&self) -> Result<String, String>;
}
