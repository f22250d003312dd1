//! Nested tables of settings, and the paths of their keys.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// The parts of a dotted key.
pub(super) type KeyPath = Vec<String>;

/// Returns the parts of a dotted key.
pub(super) fn parts(key: &str) -> KeyPath {
    key.split('.').map(str::to_owned).collect()
}

/// Merges `upper` over `lower`, key by key.
pub(super) fn merge(lower: &mut Table, upper: Table) {
    for (key, value) in upper {
        match (lower.get_mut(&key), value) {
            (Some(Value::Table(lower)), Value::Table(upper)) => merge(lower, upper),
            (_, value) => {
                lower.insert(key, value);
            }
        }
    }
}

/// Inserts a value at `path`. Replaces values on the way that are not tables.
pub(super) fn insert(table: &mut Table, path: &[String], value: Value) {
    let in_table = |inner: Value, key: &String| Table::from_iter([(key.clone(), inner)]).into();
    if let Value::Table(nested) = path.iter().rev().fold(value, in_table) {
        merge(table, nested);
    }
}

pub(super) fn look_up<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (key, rest) = path.split_first()?;
    rest.iter()
        .try_fold(table.get(key)?, |value, key| value.get(key))
}

/// Returns all values that are not tables, by key.
pub(super) fn leaves(table: &Table) -> BTreeMap<KeyPath, Value> {
    let mut found = BTreeMap::new();
    collect(table, &mut Vec::new(), &mut found);
    found
}

fn collect(table: &Table, path: &mut KeyPath, found: &mut BTreeMap<KeyPath, Value>) {
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
