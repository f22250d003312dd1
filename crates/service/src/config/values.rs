//! All keys with their values: what is compared, mixed and printed.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::secrets::{HIDDEN, secrets_in};
use super::{ConfigError, Layer, Stack, toml_source};

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

    /// The settings that these values mean.
    ///
    /// # Errors
    /// A key that nobody knows, a value of the wrong type.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let text = toml::to_string(&self.table).unwrap_or_default();
        let source = toml_source(&text);
        Stack::new().lay(Layer::Together, |all| Ok(all.add_source(source.clone())))
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

    /// Notes what a layer has, and the values of all layers so far.
    pub(super) fn lay(&mut self, layer: &Layer, all: Table, own: &Table) {
        self.table = all;
        if *layer != Layer::Defaults {
            let paths = leaves(own).into_keys();
            let origins = paths.map(|path| (path, layer.clone()));
            self.origins.extend(origins);
        }
    }

    /// A text about these values with every secret in it replaced.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let mut secrets = secrets_in(&[], &Value::Table(self.table.clone()));
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
                found.insert(path.clone(), natural(other));
            }
        }
        path.pop();
    }
}

/// A value in its own type: the environment and flags have nothing but texts, which are read as what
/// they say.
pub(super) fn natural(value: &Value) -> Value {
    let Value::String(text) = value else {
        return value.clone();
    };
    match text.parse::<i64>() {
        Ok(number) if number.to_string() == *text => Value::Integer(number),
        _ => match text.parse::<bool>() {
            Ok(flag) => Value::Boolean(flag),
            Err(_) => value.clone(),
        },
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
