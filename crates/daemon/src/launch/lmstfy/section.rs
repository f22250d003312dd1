//! A table with case-insensitive keys, as in lmstfy.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// A table of an lmstfy file. Records which keys were read.
pub(super) struct LmstfySection<'a> {
    /// The table's name and a dot; empty for the file itself.
    prefix: String,
    /// By lowercase name: the name as written, and the value.
    entries: BTreeMap<String, (&'a str, &'a Value)>,
    read: BTreeSet<String>,
}

impl<'a> LmstfySection<'a> {
    /// # Errors
    /// Two keys differ only in case.
    pub(super) fn new(name: &str, table: &'a Table) -> Result<Self, String> {
        let prefix = match name {
            "" => String::new(),
            name => format!("{name}."),
        };
        let mut entries = BTreeMap::new();
        for (key, value) in table {
            let before = entries.insert(key.to_lowercase(), (key.as_str(), value));
            if let Some((before, _)) = before {
                return Err(format!(
                    "{prefix}{before} and {prefix}{key} are the same key: remove one of them"
                ));
            }
        }
        Ok(Self {
            prefix,
            entries,
            read: BTreeSet::new(),
        })
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<&'a str>, String> {
        self.value(key, "a text in quotes", Value::as_str)
    }

    /// Reads a text; `None` if it is empty.
    pub(super) fn full_text(&mut self, key: &str) -> Result<Option<&'a str>, String> {
        Ok(self.text(key)?.filter(|text| !text.is_empty()))
    }

    pub(super) fn flag(&mut self, key: &str) -> Result<Option<bool>, String> {
        self.value(key, "true or false", Value::as_bool)
    }

    pub(super) fn number(&mut self, key: &str, max: u32) -> Result<Option<u32>, String> {
        let number = |value: &Value| u32::try_from(value.as_integer()?).ok();
        let within = |value: &Value| number(value).filter(|number| *number <= max);
        self.value(key, &format!("a whole number from 0 to {max}"), within)
    }

    pub(super) fn table(&mut self, key: &str) -> Result<Option<&'a Table>, String> {
        self.value(key, "a table", Value::as_table)
    }

    pub(super) fn section(&mut self, key: &str) -> Result<Option<Self>, String> {
        let table = self.table(key)?;
        let name = format!("{}{key}", self.prefix);
        table.map(|table| Self::new(&name, table)).transpose()
    }

    pub(super) fn required_text(&mut self, key: &str) -> Result<&'a str, String> {
        self.full_text(key)?.ok_or_else(|| self.missing_error(key))
    }

    pub(super) fn required_port(&mut self, key: &str) -> Result<u16, String> {
        let number = self.number(key, u16::MAX.into())?;
        let port = number.and_then(|number| number.try_into().ok());
        port.filter(|port| *port != 0)
            .ok_or_else(|| self.missing_error(key))
    }

    pub(super) fn missing_error(&self, key: &str) -> String {
        format!("{}{key} is missing; lmstfy requires it too", self.prefix)
    }

    /// Returns the keys that were not read, as written.
    pub(super) fn unread(&self) -> impl Iterator<Item = String> {
        let entries = self.entries.iter();
        let unread = entries.filter(|(key, _)| !self.read.contains(*key));
        unread.map(|(_, (key, _))| format!("{}{key}", self.prefix))
    }

    /// Reads a key. `read` returns `None` if the value is not as `expected`.
    fn value<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let lowercase = key.to_lowercase();
        let Some((_, value)) = self.entries.get(&lowercase) else {
            return Ok(None);
        };
        self.read.insert(lowercase);
        let value = read(value).ok_or_else(|| format!("{}{key} must be {expected}", self.prefix));
        value.map(Some)
    }
}
