//! Relays: a table with revisions, like the table of policies. A field is `namespace/relay`, its value the settings of
//! the relay, as JSON that this crate does not read. They have secrets.

use std::collections::BTreeMap;
use std::fmt;

use redis::Cmd;
use tidegate_core::{Namespace, keys};

use crate::error::StoreError;
use crate::store::Store;
use crate::table_revision::TableRevision;
use crate::table_set::{RevisionTable, TableSetOutcome};

/// The field with the last revision.
const LAST_REVISION: &str = "#";

/// About how many entries of other namespaces one call passes over.
const PASSED: u16 = 500;

const TABLE: RevisionTable<'static> = RevisionTable {
    key: keys::RELAYS,
    listed: 0,
    reports: Some(keys::RELAY_REPORTS),
    kind: "relays",
};

/// The name of a relay in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayKey {
    /// The namespace.
    pub namespace: Namespace,
    /// The name. It has no slash.
    pub name: String,
}

impl fmt::Display for RelayKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

impl RelayKey {
    /// The key of a field; `None` if the field is none of a relay.
    fn parse(field: &str) -> Option<Self> {
        let (namespace, name) = field.split_once('/')?;
        // A field without a name has the number of relays of the namespace.
        (!name.is_empty()).then_some(Self {
            namespace: Namespace::try_from(namespace).ok()?,
            name: name.to_owned(),
        })
    }
}

/// A relay as it is stored.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StoredRelay {
    /// Its revision; `None` if the entry is damaged.
    pub revision: Option<TableRevision>,
    /// Its settings, as JSON with secrets.
    pub value: String,
}

/// Without the settings, which have secrets.
impl fmt::Debug for StoredRelay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StoredRelay")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl StoredRelay {
    /// Bytes that are no text are a damaged entry.
    fn read(text: &[u8]) -> Self {
        std::str::from_utf8(text).map_or_else(|_| Self::default(), Self::parse)
    }

    fn parse(text: &str) -> Self {
        let (revision, value) = text.split_once(' ').unwrap_or_default();
        Self {
            revision: revision.parse().ok(),
            value: value.to_owned(),
        }
    }
}

/// All relays of a deployment at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RelayRows {
    /// The relays.
    pub by_key: BTreeMap<RelayKey, StoredRelay>,
    /// The last revision of the table, which changes with any relay; 0 if there was none, or it cannot be read.
    pub last: TableRevision,
}

/// The revision in the text; the revision of an empty table if it is damaged.
fn revision(text: &[u8]) -> TableRevision {
    let text = std::str::from_utf8(text).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The relays stored in one deployment.
#[derive(Debug, Clone)]
pub struct Relays {
    pub(crate) store: Store,
}

impl Relays {
    /// The relay with this name, if it exists.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn get(&self, key: &RelayKey) -> Result<Option<StoredRelay>, StoreError> {
        let field = Cmd::hget(keys::RELAYS, key.to_string());
        let text: Option<Vec<u8>> = self.store.command(&field).await?;
        Ok(text.map(|text| StoredRelay::read(&text)))
    }

    /// All relays. Fields that name none are skipped.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn all(&self) -> Result<RelayRows, StoreError> {
        let all = Cmd::hgetall(keys::RELAYS);
        let fields: Vec<(Vec<u8>, Vec<u8>)> = self.store.large_command(&all).await?;
        let mut rows = RelayRows::default();
        for (field, text) in fields {
            let Ok(field) = std::str::from_utf8(&field) else {
                continue;
            };
            if field == LAST_REVISION {
                rows.last = revision(&text);
            } else if let Some(key) = RelayKey::parse(field) {
                rows.by_key.insert(key, StoredRelay::read(&text));
            }
        }
        Ok(rows)
    }

    /// The relays of a namespace. A relay that is set or removed meanwhile may be missing.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn of(
        &self,
        namespace: &Namespace,
    ) -> Result<BTreeMap<RelayKey, StoredRelay>, StoreError> {
        type Fields = Vec<(Vec<u8>, Vec<u8>)>;
        let (mut relays, mut cursor) = (BTreeMap::new(), 0_u64);
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(keys::RELAYS).arg(cursor);
            scan.arg("MATCH").arg(format!("{namespace}/?*"));
            scan.arg("COUNT").arg(PASSED);
            let (next, fields): (u64, Fields) = self.store.large_command(&scan).await?;
            let own = fields.iter().filter_map(|(field, text)| {
                let field = str::from_utf8(field).ok()?;
                Some((RelayKey::parse(field)?, StoredRelay::read(text)))
            });
            relays.extend(own);
            if next == 0 {
                return Ok(relays);
            }
            cursor = next;
        }
    }

    /// The last revision of the table.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn last_revision(&self) -> Result<TableRevision, StoreError> {
        let field = Cmd::hget(keys::RELAYS, LAST_REVISION);
        let text: Option<Vec<u8>> = self.store.command(&field).await?;
        Ok(text.map(|text| revision(&text)).unwrap_or_default())
    }

    /// Sets a relay, or removes it if `value` is empty. With `expected`, only if that is its revision; revision 0 =
    /// there is none.
    ///
    /// # Errors
    /// The namespace has as many relays as it may; or Redis is unavailable; the change may be executed nevertheless,
    /// even later.
    pub async fn set(
        &self,
        key: &RelayKey,
        value: String,
        expected: Option<TableRevision>,
    ) -> Result<TableSetOutcome, StoreError> {
        let most = self.store.namespace_limits().relays;
        TABLE
            .set(&self.store, key.to_string(), value, expected, most)
            .await
    }
}

impl Store {
    /// The relays stored in this deployment.
    #[must_use]
    pub fn relays(&self) -> Relays {
        let store = self.clone();
        Relays { store }
    }
}
