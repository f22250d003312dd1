//! An entry of a table as it is stored.

use std::fmt;

use super::revision::TableRevision;
use super::value::TableValue;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<T> {
    /// Its revision; `None` if that cannot be read.
    pub revision: Option<TableRevision>,
    /// Its value, if value and revision can be read.
    pub value: Result<T, Damaged>,
}

/// An entry that cannot be read: it is damaged, or of a later release.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Damaged {
    /// Why it cannot be read.
    pub reason: String,
    /// The stored text, which may have secrets.
    pub text: String,
}

/// Without the text, which may have secrets.
impl fmt::Debug for Damaged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Damaged")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

/// The row of a name without an entry: it has revision 0, and the default value.
impl<T: Default> Default for Row<T> {
    fn default() -> Self {
        Self {
            revision: Some(TableRevision::default()),
            value: Ok(T::default()),
        }
    }
}

impl<T: TableValue> Row<T> {
    /// Reads a revision, a space, and the text of a value.
    pub(crate) fn read(stored: &[u8]) -> Self {
        let text = str::from_utf8(stored).ok();
        let parts = text.and_then(|text| text.split_once(' '));
        let parts = parts.and_then(|(revision, value)| Some((revision.parse().ok()?, value)));
        let (revision, value) = match parts {
            Some((revision, value)) => (Some(revision), T::parse(value)),
            None => (None, Err("it has no valid revision".to_owned())),
        };
        let value = value.map_err(|reason| Damaged {
            reason,
            text: String::from_utf8_lossy(stored).into_owned(),
        });
        Self { revision, value }
    }
}

impl<T> Row<T> {
    /// The value and its revision.
    ///
    /// # Errors
    /// The entry cannot be read.
    pub fn readable(self) -> Result<(T, TableRevision), Damaged> {
        Ok((self.value?, self.revision.unwrap_or_default()))
    }
}
