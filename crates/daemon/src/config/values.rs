//! All keys with their values: compared, merged and printed.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::error::{ConfigError, SettingsLayer};
use super::schema::Schema;
use super::secrets::{HIDDEN, secrets_in};
use super::tables::{KeyPath, leaves, merge};

/// Every key with its value and the layer that set it. It may hold secrets, so there is no `Debug`: use
/// [`ConfigValues::print`].
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
#[derive(Clone, Default)]
pub struct ConfigValues {
    pub(super) table: Table,
    /// The layer of each value that is not a default.
    pub(super) origins: BTreeMap<KeyPath, SettingsLayer>,
}

impl ConfigValues {
    /// Returns the keys whose values differ, sorted by name.
    #[must_use]
    pub fn changed_keys(&self, newer: &Self) -> Vec<String> {
        let (ours, theirs) = (leaves(&self.table), leaves(&newer.table));
        let differs = |path: &&KeyPath| ours.get(*path) != theirs.get(*path);
        let all: std::collections::BTreeSet<&KeyPath> = ours.keys().chain(theirs.keys()).collect();
        all.into_iter()
            .filter(differs)
            .map(|path| path.join("."))
            .collect()
    }

    /// Returns these values with the reloadable keys, and everything below them, taken from `newer`.
    #[must_use]
    pub fn reloaded(&self, newer: &Self, schema: &Schema) -> Self {
        let mut mixed = self.clone();
        for path in &schema.reloadable {
            replace(&mut mixed.table, path, &newer.table);
        }
        mixed
    }

    /// Deserializes the values. Every layer was checked before.
    ///
    /// # Errors
    /// The settings do not accept a value.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let layer = SettingsLayer::Merged;
        self.read()
            .map_err(|problem| ConfigError { layer, problem })
    }

    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        let read = Value::Table(self.table.clone()).try_into();
        read.map_err(|error: toml::de::Error| {
            // The error has the key on a second line.
            let message = error.to_string().trim().replace('\n', " ");
            self.without_secrets(&message)
        })
    }

    /// Fills in the missing keys of each table below `tables` from `template`, except for the keys in
    /// `but`. Existing values stay.
    #[must_use]
    pub fn with_missing_keys(&self, tables: &str, template: &Table, but: &[&str]) -> Self {
        let mut complete = self.clone();
        let tables = complete.table.get_mut(tables).and_then(Value::as_table_mut);
        let tables = tables.into_iter().flatten();
        for table in tables.filter_map(|(_, value)| value.as_table_mut()) {
            for (key, value) in template {
                if !but.contains(&key.as_str()) {
                    table.entry(key).or_insert_with(|| value.clone());
                }
            }
        }
        complete
    }

    /// Merges a layer over these values, and records the layer for each of its keys.
    pub(super) fn merge_layer(&mut self, layer: &SettingsLayer, own: Table) {
        if *layer != SettingsLayer::Defaults {
            let paths = leaves(&own).into_keys();
            let origins = paths.map(|path| (path, layer.clone()));
            self.origins.extend(origins);
        }
        merge(&mut self.table, own);
    }

    /// Replaces the secrets of these values in a text, in their escaped form too, where they are whole words: a password
    /// such as `pool` must not hide the names of settings that contain it.
    #[must_use]
    pub fn without_secrets(&self, text: &str) -> String {
        let secrets = secrets_in(&[], &Value::Table(self.table.clone()));
        let quoted = secrets
            .iter()
            .map(|secret| secret.escape_debug().to_string());
        let mut secrets: Vec<String> = quoted.chain(secrets.iter().cloned()).collect();
        // Longest first: a secret may contain another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let (mut shown, mut at) = (String::new(), 0);
        while let Some(next) = text[at..].chars().next() {
            match secrets.iter().find(|secret| is_word_at(text, at, secret)) {
                Some(secret) => {
                    shown.push_str(HIDDEN);
                    at += secret.len();
                }
                None => {
                    shown.push(next);
                    at += next.len_utf8();
                }
            }
        }
        shown
    }

    /// Rejects printed settings that still have `<hidden>` in place of a secret.
    pub(super) fn check_not_hidden(&self) -> Result<(), ConfigError> {
        let all = leaves(&self.table);
        let is_hidden = |value: &Value| value.as_str().is_some_and(|text| text.contains(HIDDEN));
        let Some((path, _)) = all.iter().find(|(_, value)| is_hidden(value)) else {
            return Ok(());
        };
        let layer = self
            .origins
            .get(path)
            .cloned()
            .unwrap_or(SettingsLayer::Defaults);
        let key = path.join(".");
        let problem = format!(
            "{key}: {HIDDEN} stands for a secret that is not printed; put the secret itself here"
        );
        Err(ConfigError { layer, problem })
    }
}

fn replace(table: &mut Table, path: &[String], newer: &Table) {
    let Some((key, rest)) = path.split_first() else {
        return;
    };
    match (table.get_mut(key), newer.get(key)) {
        (Some(Value::Table(ours)), Some(Value::Table(theirs))) if !rest.is_empty() => {
            replace(ours, rest, theirs);
        }
        (_, Some(theirs)) => {
            table.insert(key.clone(), theirs.clone());
        }
        (_, None) => {
            table.remove(key);
        }
    }
}

/// Whether `word`, which is not empty, is at this place of a text, and no part of a longer word.
fn is_word_at(text: &str, at: usize, word: &str) -> bool {
    let is_in_word = |letter: Option<char>| {
        letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == '-')
    };
    let (before, rest) = text.split_at(at);
    let Some(behind) = rest.strip_prefix(word) else {
        return false;
    };
    let begins_inside = is_in_word(before.chars().next_back()) && is_in_word(word.chars().next());
    let ends_inside = is_in_word(word.chars().next_back()) && is_in_word(behind.chars().next());
    !word.is_empty() && !begins_inside && !ends_inside
}
