//! Setting and removing entries of tables.

use super::entries::Table;
use super::revision::TableRevision;
use super::value::TableValue;
use crate::error::StoreError;
use crate::namespace_limits::{full, max_argument};
use crate::script::{LazyScript, script};

static TABLE_SET: LazyScript = script!("table_set").refused_without_memory();
/// The same for a server that has reached `maxmemory`: large values do not grow there.
static TABLE_SET_WHEN_FULL: LazyScript = script!("table_set");

/// The outcome of setting an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum TableSetOutcome {
    /// It is set. Its revision is 0 if it is removed.
    Done(TableRevision),
    /// The stored entry has another revision than the expected one; `None` if it cannot be read. Nothing changed.
    VersionMismatch(Option<TableRevision>),
}

impl<T: TableValue> Table<T> {
    /// Sets an entry, or removes it if there is no value or its text is empty. With `expected`, only if that is the
    /// revision of the stored entry; revision 0 = there is none.
    ///
    /// # Errors
    /// - [`StoreError::Corrupt`]: the value is invalid; nothing was sent. Callers check it before.
    /// - [`StoreError::NamespaceFull`]: the namespace has as many entries as it may; nothing changed.
    /// - Redis is unavailable; the change may be executed nevertheless, even later.
    pub async fn set(
        &self,
        name: &T::Name,
        value: Option<&T>,
        expected: Option<TableRevision>,
    ) -> Result<TableSetOutcome, StoreError> {
        let invalid = |reason| StoreError::corrupt(format!("invalid value of {name}: {reason}"));
        let text = value.map(T::to_text).transpose().map_err(invalid)?;
        let text = text.unwrap_or_default();
        let expected = expected.map_or_else(String::new, |revision| revision.to_string());
        let tag = format!("{:08x}", rand::random::<u32>());
        let namespace = Self::namespace(name);
        let limits = namespace.map(|it| self.store.namespace_limits(&it));
        let max = limits.and_then(T::max);
        let (hash, field) = Self::place(name);
        let call = |script, is_full: bool| {
            let hash = hash.clone();
            let call = match T::REPORTS {
                Some(reports) => self.store.call_on_both(script, hash, reports),
                None => self.store.call(script, hash),
            };
            let call = call.arg(&field).arg(&expected).arg(&tag).arg(&text);
            let call = call.arg(T::CHANGES_LISTED).arg(max_argument(max));
            call.arg(u8::from(is_full)).send()
        };
        let mut reply = match call(&TABLE_SET, false).await {
            Err(error) if error.is_out_of_memory() => call(&TABLE_SET_WHEN_FULL, true).await?,
            sent => sent?,
        };
        let revision = String::from_utf8_lossy(&reply.bytes()?).into_owned();
        let revision = revision.parse::<TableRevision>();
        match reply.token() {
            "ok" => {
                let revision = revision.map_err(|error| StoreError::corrupt(error.to_string()))?;
                Ok(TableSetOutcome::Done(revision))
            }
            "mismatch" => Ok(TableSetOutcome::VersionMismatch(revision.ok())),
            "full" => Err(full(T::KIND, max)),
            _ => reply.unknown(),
        }
    }
}
