//! Tables of entries with revisions: policies, relays and schedules. A table is a hash. The value of a field is a
//! revision, a space, and a text; the field `#` has the last revision of the table.

mod changes;
mod name;
mod revision;
mod row;
mod set;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use redis::Cmd;
use tidegate_core::Namespace;

pub use self::changes::{TableChanges, TableRows};
pub use self::name::NamespacedName;
pub use self::revision::{InvalidRevision, TableRevision};
pub use self::row::{Damaged, Row};
pub use self::set::TableSetOutcome;
use crate::error::StoreError;
use crate::namespace_limits::NamespaceLimits;
use crate::store::Store;

/// The field with the last revision, and how the fields with changes begin.
const LAST_REVISION: &str = "#";

/// A field of a hash, and its value.
type Field = (Vec<u8>, Vec<u8>);

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

    /// The entries, as a key of `namespace_limits`.
    const KIND: &'static str;

    /// About how many entries one call of a list reads.
    const ENTRIES_PER_CALL: u64 = 500;

    /// How many changes the table lists.
    const CHANGES_LISTED: u64 = 0;

    /// The key of a hash in the same slot that loses the field of an entry which is removed.
    const REPORTS: Option<&'static str> = None;

    /// The most entries of a namespace.
    fn max(limits: NamespaceLimits) -> u32;

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

/// The entries of one kind of a deployment.
#[derive(Debug, Clone)]
pub struct Table<T> {
    pub(crate) store: Store,
    value: PhantomData<fn() -> T>,
}

impl<T: TableValue> Table<T> {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            value: PhantomData,
        }
    }

    /// The hash and the field of an entry.
    fn place(name: &T::Name) -> (String, String) {
        let text = name.to_string();
        match T::HASH {
            TableHash::Shared(hash) => (hash.to_owned(), text),
            TableHash::OfNamespace(hash_of) => {
                let (namespace, name) = text.split_once('/').unwrap_or_default();
                (hash_of(namespace), name.to_owned())
            }
        }
    }

    /// The name of the entry with this field, with `namespace/` if the field lacks it; `None` if the field has no entry.
    pub(crate) fn name(prefix: &str, field: &[u8]) -> Option<T::Name> {
        let field = str::from_utf8(field).ok()?;
        let is_entry = !field.starts_with(LAST_REVISION);
        let name = is_entry.then(|| format!("{prefix}{field}"))?;
        T::Name::try_from(&name).ok()
    }

    /// An entry, if there is one with this name.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn get(&self, name: &T::Name) -> Result<Option<Row<T>>, StoreError> {
        let (hash, field) = Self::place(name);
        let text: Option<Vec<u8>> = self.store.command(&Cmd::hget(hash, field)).await?;
        Ok(text.map(|text| Row::read(&text)))
    }

    /// Several entries, in the order of the names; `None` where there is none. Neighbours of one hash are read together.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn get_many(&self, names: &[&T::Name]) -> Result<Vec<Option<Row<T>>>, StoreError> {
        let texts = self.texts(names).await?;
        let read = |text: Option<Vec<u8>>| text.map(|text| Row::read(&text));
        Ok(texts.into_iter().map(read).collect())
    }

    /// The same, not read yet.
    pub(crate) async fn texts(
        &self,
        names: &[&T::Name],
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let places: Vec<_> = names.iter().map(|name| Self::place(name)).collect();
        let mut texts = Vec::with_capacity(names.len());
        for of_hash in places.chunk_by(|(one, _), (other, _)| one == other) {
            let fields: Vec<&str> = of_hash.iter().map(|(_, field)| field.as_str()).collect();
            texts.extend(self.fields(&of_hash[0].0, &fields).await?);
        }
        Ok(texts)
    }

    async fn fields(
        &self,
        hash: &str,
        fields: &[&str],
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.store.large_command(&Cmd::hmget(hash, fields)).await
    }

    /// The entries of a namespace. An entry that is set or removed meanwhile may be missing.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn of(&self, namespace: &Namespace) -> Result<BTreeMap<T::Name, Row<T>>, StoreError> {
        let prefix = format!("{namespace}/");
        match T::HASH {
            TableHash::Shared(hash) => self.scan(hash, &format!("{prefix}?*"), "").await,
            TableHash::OfNamespace(hash_of) => {
                let hash = hash_of(namespace.as_str());
                self.scan(&hash, "*", &prefix).await
            }
        }
    }

    /// The entries of a hash whose fields match, page by page. Names are fields behind the prefix.
    async fn scan(
        &self,
        hash: &str,
        pattern: &str,
        prefix: &str,
    ) -> Result<BTreeMap<T::Name, Row<T>>, StoreError> {
        let (mut rows, mut cursor) = (BTreeMap::new(), 0_u64);
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(hash).arg(cursor).arg("MATCH").arg(pattern);
            scan.arg("COUNT").arg(T::ENTRIES_PER_CALL);
            let (next, fields): (u64, Vec<Field>) = self.store.large_command(&scan).await?;
            rows.extend(Self::rows(prefix, &fields));
            if next == 0 {
                return Ok(rows);
            }
            cursor = next;
        }
    }

    /// The entries in these fields. Fields without an entry are skipped.
    fn rows(prefix: &str, fields: &[Field]) -> BTreeMap<T::Name, Row<T>> {
        let fields = fields.iter();
        let read = |(field, text): &Field| Some((Self::name(prefix, field)?, Row::read(text)));
        fields.filter_map(read).collect()
    }
}
