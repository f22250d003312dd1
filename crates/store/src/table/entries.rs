//! Reading the entries of a table.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use redis::Cmd;
use tidegate_core::Namespace;

use super::row::Row;
use super::value::{TableHash, TableValue};
use crate::error::StoreError;
use crate::store::Store;

/// The field with the last revision, and how the fields with changes begin.
pub(super) const LAST_REVISION: &str = "#";

/// A field of a hash, and its value.
pub(super) type Field = (Vec<u8>, Vec<u8>);

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
    pub(super) fn place(name: &T::Name) -> (String, String) {
        let text = name.to_string();
        match T::HASH {
            TableHash::Shared(hash) => (hash.to_owned(), text),
            TableHash::OfNamespace(hash_of) => {
                let (namespace, name) = text.split_once('/').unwrap_or_default();
                (hash_of(namespace), name.to_owned())
            }
        }
    }

    /// The name of the entry with this field, with `namespace/` if the field lacks it; `None` if the field has no
    /// entry.
    pub(crate) fn name(prefix: &str, field: &[u8]) -> Option<T::Name> {
        let field = str::from_utf8(field).ok()?;
        let is_entry = !field.starts_with(LAST_REVISION);
        let name = is_entry.then(|| format!("{prefix}{field}"))?;
        T::Name::try_from(&name).ok()
    }

    /// The namespace in a name.
    pub(super) fn namespace(name: &T::Name) -> Option<Namespace> {
        let name = name.to_string();
        let (namespace, _) = name.split_once('/')?;
        Namespace::try_from(namespace).ok()
    }

    /// How many entries a namespace has.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn count_of(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        match T::HASH {
            TableHash::Shared(hash) => {
                let count = Cmd::hget(hash, format!("{namespace}/"));
                let count: Option<u64> = self.store.command(&count).await?;
                Ok(count.unwrap_or_default())
            }
            TableHash::OfNamespace(hash_of) => {
                let hash = hash_of(namespace.as_str());
                let fields: u64 = self.store.command(&Cmd::hlen(hash)).await?;
                // The others have the last revision.
                Ok(fields.saturating_sub(1))
            }
        }
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

    /// Several entries, in the order of the names; `None` where there is none. Neighbours of one hash are read
    /// together.
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

    pub(super) async fn fields(
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
    pub(super) async fn scan(
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
    pub(super) fn rows(prefix: &str, fields: &[Field]) -> BTreeMap<T::Name, Row<T>> {
        let fields = fields.iter();
        let read = |(field, text): &Field| Some((Self::name(prefix, field)?, Row::read(text)));
        fields.filter_map(read).collect()
    }
}
