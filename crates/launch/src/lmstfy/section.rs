//! A table whose keys are read whatever their case, as lmstfy does.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// A table of lmstfy's file. Notes which keys were read.
pub(super) struct Section<'a> {
    /// Its name with a dot behind it; empty for the file itself.
    prefix: String,
    /// By name in lower case: the name as it was written, and the value.
    entries: BTreeMap<String, (&'a str, &'a Value)>,
    read: BTreeSet<String>,
}

impl<'a> Section<'a> {
    /// # Errors
    /// A key is there twice, written in different ways.
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
                    "{prefix}{before} and {prefix}{key} are the same key"
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
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "a text in quotes")),
        }
    }

    pub(super) fn flag(&mut self, key: &str) -> Result<Option<bool>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    pub(super) fn number(&mut self, key: &str, max: u32) -> Result<Option<u32>, String> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let number = value.as_integer().and_then(|number| number.try_into().ok());
        match number.filter(|number| *number <= max) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(key, &format!("a whole number from 0 to {max}"))),
        }
    }

    pub(super) fn table(&mut self, key: &str) -> Result<Option<&'a Table>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(table)),
            Some(_) => Err(self.wrong(key, "a table")),
        }
    }

    pub(super) fn section(&mut self, key: &str) -> Result<Option<Self>, String> {
        let table = self.table(key)?;
        let name = format!("{}{key}", self.prefix);
        table.map(|table| Self::new(&name, table)).transpose()
    }

    pub(super) fn required_text(&mut self, key: &str) -> Result<&'a str, String> {
        let text = self.text(key)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| self.missing(key))
    }

    pub(super) fn required_port(&mut self, key: &str) -> Result<u16, String> {
        let number = self.number(key, u16::MAX.into())?;
        let port = number.and_then(|number| number.try_into().ok());
        port.filter(|port| *port != 0)
            .ok_or_else(|| self.missing(key))
    }

    pub(super) fn missing(&self, key: &str) -> String {
        format!("{}{key} is missing, and lmstfy needs it too", self.prefix)
    }

    /// The keys that nobody has asked for, as they were written.
    pub(super) fn unread(&self) -> impl Iterator<Item = String> {
        let entries = self.entries.iter();
        let unread = entries.filter(|(key, _)| !self.read.contains(*key));
        unread.map(|(_, (key, _))| format!("{}{key}", self.prefix))
    }

    fn get(&mut self, key: &str) -> Option<&'a Value> {
        let key = key.to_lowercase();
        let (_, value) = self.entries.get(&key)?;
        self.read.insert(key);
        Some(value)
    }

    fn wrong(&self, key: &str, expected: &str) -> String {
        format!("{}{key} must be {expected}", self.prefix)
    }
}
