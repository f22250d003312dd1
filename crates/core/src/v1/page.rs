//! Pages of lists.

use serde::{Deserialize, Serialize};

use crate::v1::values::CursorText;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// The cursor of the next page; `null` at the end of the list.
    pub next: Option<CursorText>,
}
