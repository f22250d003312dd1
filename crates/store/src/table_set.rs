//! Setting and removing entries of tables with revisions: policies, relays and schedules.

use crate::error::{NamespaceFull, StoreError};
use crate::script::{LazyScript, script};
use crate::store::Store;
use crate::table_revision::TableRevision;

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

/// A table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RevisionTable<'a> {
    pub(crate) key: &'a str,
    /// How many changes it lists.
    pub(crate) listed: u64,
    /// The key of a hash in the same slot that loses the field of an entry which is removed.
    pub(crate) reports: Option<&'static str>,
    /// The name of its entries.
    pub(crate) kind: &'static str,
}

impl RevisionTable<'_> {
    /// Sets an entry, or removes it if the value is empty. With `expected`, only if that is the revision of the stored
    /// entry. A namespace has at most `most` entries.
    ///
    /// # Errors
    /// The namespace is full, and nothing changed; or Redis is unavailable.
    pub(crate) async fn set(
        self,
        store: &Store,
        name: String,
        value: String,
        expected: Option<TableRevision>,
        most: u32,
    ) -> Result<TableSetOutcome, StoreError> {
        let expected = expected.map_or_else(String::new, |revision| revision.to_string());
        let tag = format!("{:08x}", rand::random::<u32>());
        let call = |script, is_full: bool| {
            let key = self.key.to_owned();
            let call = match self.reports {
                Some(reports) => store.call_on_both(script, key, reports),
                None => store.call(script, key),
            };
            let call = call.arg(&name).arg(&expected).arg(&tag).arg(&value);
            let call = call.arg(self.listed).arg(most);
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
            "full" => Err(StoreError::NamespaceFull(NamespaceFull {
                kind: self.kind,
                max: most,
            })),
            _ => reply.unknown(),
        }
    }
}
