//! Lists whose cursors repeat.

use std::collections::HashSet;

use serde::de::Error as _;
use tidegate_core::v1::values::CursorText;

use crate::error::Error;

/// The cursors of a list that is read page by page. A list whose cursors repeat has no end: a fault of a server or a
/// proxy.
#[derive(Debug, Default)]
pub struct CursorGuard(HashSet<String>);

impl CursorGuard {
    /// Adds the cursor of the next page.
    ///
    /// # Errors
    /// It is the cursor of an earlier page.
    pub fn check(&mut self, next: &CursorText) -> Result<(), Error> {
        match self.0.insert(next.as_str().to_owned()) {
            true => Ok(()),
            false => Err(Error::decode(
                "a list",
                serde_json::Error::custom(format!("the cursor {} came twice", next.as_str())),
            )),
        }
    }
}
