//! All keys with their values: what is compared, mixed and printed.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::schema::merge;
use super::secrets::{HIDDEN, secrets_in};
use super::{ConfigError, Layer};

/// The parts of a key.
pub(super) type Path = Vec<String>;

/// Every key with its value and the layer that it comes from. It may hold secrets, so it cannot be shown
/// but with [`Values::print`].
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
#[derive(Clone, Default)]
pub struct Values {
    pub(super) table: Table,
    /// Only of what is not a default.
    pub(super) origins: BTreeMap<Path, Layer>,
}

impl Values {
    /// The keys whose values differ, in the order of their names.
    #[must_use]
    pub fn changed(&self, newer: &Self) -> Vec<String> {
        let (ours, theirs) = (leaves(&self.table), leaves(&newer.table));
        let differs = |path: &&Path| ours.get(*path) != theirs.get(*path);
        let all: std::collections::BTreeSet<&Path> = ours.keys().chain(theirs.keys()).collect();
        all.into_iter()
            .filter(differs)
            .map(|path| path.join("."))
            .collect()
    }

    /// These values, but with `keys`, and all that is below them, taken from `newer`.
    #[must_use]
    pub fn with(&self, newer: &Self, keys: &[&str]) -> Self {
        let mut mixed = self.clone();
        for key in keys {
            let path: Vec<&str> = key.split('.').collect();
            replace(&mut mixed.table, &path, &newer.table);
        }
        mixed
    }

    /// The settings that these values mean. Each of the layers that they come from was checked.
    ///
    /// # Errors
    /// A value that the settings do not accept.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        self.read()
            .map_err(|problem| ConfigError::new(Layer::Together, problem))
    }

    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        let read = Value::Table(self.table.clone()).try_into();
        read.map_err(|error: toml::de::Error| {
            // The key is on a line of its own, behind what is wrong with it.
            let said = error.to_string().trim().replace('\n', " ");
            self.without_secrets(&said)
        })
    }

    /// For every table in `tables`: what it does not say is said by `template`, except for `but`. What
    /// was there stays.
    #[must_use]
    pub fn completed(&self, tables: &str, template: &Table, but: &[&str]) -> Self {
        let mut complete = self.clone();
        let tables = complete.table.get_mut(tables).and_then(Value::as_table_mut);
        for (_, value) in tables.into_iter().flatten() {
            let Some(table) = value.as_table_mut() else {
                continue;
            };
            for (key, value) in template {
                if !but.contains(&key.as_str()) && !table.contains_key(key) {
                    table.insert(key.clone(), value.clone());
                }
            }
        }
        complete
    }

    /// Lays a layer over what is there, and notes what comes from it.
    pub(super) fn lay(&mut self, layer: &Layer, own: Table) {
        if *layer != Layer::Defaults {
            let paths = leaves(&own).into_keys();
            let origins = paths.map(|path| (path, layer.clone()));
            self.origins.extend(origins);
        }
        merge(&mut self.table, own);
    }

    /// A text about these values with every secret in it replaced, also where it is quoted.
    #[must_use]
    pub fn without_secrets(&self, text: &str) -> String {
        let secrets = secrets_in(&[], &Value::Table(self.table.clone()));
        let quoted = secrets
            .iter()
            .map(|secret| secret.escape_debug().to_string());
        let mut secrets: Vec<String> = quoted.chain(secrets.iter().cloned()).collect();
        // A secret that has another one in it goes first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let secrets = secrets.iter().filter(|secret| !secret.is_empty());
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
    }

    /// What was printed without its secrets cannot be used as it is.
    pub(super) fn refuse_hidden(&self) -> Result<(), ConfigError> {
        let all = leaves(&self.table);
        let is_hidden = |value: &Value| value.as_str().is_some_and(|text| text.contains(HIDDEN));
        let Some((path, _)) = all.iter().find(|(_, value)| is_hidden(value)) else {
            return Ok(());
        };
        let layer = self.origins.get(path).cloned().unwrap_or(Layer::Defaults);
        let key = path.join(".");
        let problem = format!(
            "{key}: {HIDDEN} stands for a secret that is not printed; put the secret itself here"
        );
        Err(ConfigError { layer, problem })
    }
}

/// All values that are no tables, by their keys.
pub(super) fn leaves(table: &Table) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    collect(table, &mut Vec::new(), &mut found);
    found
}

fn collect(table: &Table, path: &mut Path, found: &mut BTreeMap<Path, Value>) {
    for (key, value) in table {
        path.push(key.clone());
        match value {
            Value::Table(inner) => collect(inner, path, found),
            other => {
                found.insert(path.clone(), other.clone());
            }
        }
        path.pop();
    }
}

fn replace(table: &mut Table, path: &[&str], newer: &Table) {
    let Some((key, rest)) = path.split_first() else {
        return;
    };
    match (table.get_mut(*key), newer.get(*key)) {
        (Some(Value::Table(ours)), Some(Value::Table(theirs))) if !rest.is_empty() => {
            replace(ours, rest, theirs);
        }
        (_, Some(theirs)) => {
            table.insert((*key).to_owned(), theirs.clone());
        }
        (_, None) => {
            table.remove(*key);
        }
    }
}
