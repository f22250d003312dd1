//! Type and bounds of each key. The type is that of the key's default.
//!
//! Files are not converted, since a conversion would guess: `1.5` is neither `true` nor 1. The environment and
//! flags have only texts; a text from there is parsed as the type of its key.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_duration::InvalidDuration;
use toml::{Table, Value};

use super::error::{ConfigError, SettingsLayer};
use super::parse::parse_toml;
use super::secrets::{is_address, is_secret, is_url};
use super::tables::{KeyPath, insert, leaves, look_up, merge, parts};

/// Stands for any name in a table of examples.
const ANY: &str = "*";

/// The range of values that a key accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A whole number within these bounds, both inclusive.
    Number(i64, i64),
    /// A duration in whole milliseconds within these bounds, both inclusive.
    Duration(Duration, Duration),
}

/// All known keys, with the type and the bounds of each.
#[derive(Debug, Clone)]
pub struct Schema {
    /// An example value for each key; its type is the key's type.
    examples: Table,
    bounds: Vec<(KeyPath, Bound)>,
}

impl Schema {
    /// Builds a schema from two TOML texts: `defaults`, and `optional` for keys without a default. The keys of
    /// `bounds` are dotted paths. In `optional` and in `bounds`, `*` stands for any name.
    ///
    /// # Errors
    /// One of the texts is not TOML.
    pub fn new(
        defaults: &str,
        optional: &str,
        bounds: &[(&str, Bound)],
    ) -> Result<Self, ConfigError> {
        let parsed = |text| {
            let layer = SettingsLayer::Defaults;
            parse_toml(text).map_err(|problem| ConfigError { layer, problem })
        };
        let mut examples = parsed(defaults)?;
        merge(&mut examples, parsed(optional)?);
        let bounds = bounds.iter().map(|(key, bound)| (parts(key), *bound));
        Ok(Self {
            examples,
            bounds: bounds.collect(),
        })
    }

    /// Makes the table `copy` accept the keys of the table `original`, with these bounds in both. `copy` may
    /// end with `*`. Does nothing if there is no table `original`.
    pub fn copy_table(&mut self, original: &str, copy: &str, bounds: &[(&str, Bound)]) {
        let Some(found) = look_up(&self.examples, &parts(original)).cloned() else {
            return;
        };
        insert(&mut self.examples, &parts(copy), found);
        for (key, bound) in bounds {
            for table in [original, copy] {
                let path = parts(&format!("{table}.{key}"));
                if !self.bounds.iter().any(|(known, _)| *known == path) {
                    self.bounds.push((path, *bound));
                }
            }
        }
    }

    /// Returns numbers and durations without a bound, and bounds of keys that do not exist. Tests require that
    /// there are none.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        let needs_bound = |example: &Value| match example {
            Value::Integer(_) | Value::Float(_) => true,
            Value::String(text) => tidegate_duration::parse(text).is_ok(),
            _ => false,
        };
        let examples = leaves(&self.examples);
        let entries = examples.keys().filter_map(|path| self.bound_entry(path));
        let used: Vec<&KeyPath> = entries.map(|(known, _)| known).collect();
        let unbounded = examples
            .iter()
            .filter(|(path, example)| needs_bound(example) && self.bound_entry(path).is_none());
        let unused = self
            .bounds
            .iter()
            .filter(|(known, _)| !used.contains(&known));
        let unbounded = unbounded.map(|(path, _)| path);
        let gaps = unbounded.chain(unused.map(|(known, _)| known));
        gaps.map(|path| path.join(".")).collect()
    }

    fn bound_entry(&self, path: &[String]) -> Option<&(KeyPath, Bound)> {
        let fits = |known: &[String]| {
            let mut pairs = known.iter().zip(path);
            known.len() == path.len() && pairs.all(|(known, part)| known == ANY || known == part)
        };
        self.bounds.iter().find(|(known, _)| fits(known))
    }

    /// Checks the values of a layer. If they are texts (`are_texts`), first converts them to the types of
    /// their keys.
    ///
    /// # Errors
    /// Names the key and what it accepts. A value that may be a secret is not repeated.
    pub(super) fn check(&self, layer: &mut Table, are_texts: bool) -> Result<(), String> {
        self.check_table(&self.examples, layer, &mut Vec::new(), are_texts)
    }

    fn check_table(
        &self,
        examples: &Table,
        layer: &mut Table,
        path: &mut Vec<String>,
        are_texts: bool,
    ) -> Result<(), String> {
        for (key, value) in layer {
            if is_url(key) {
                let table = path.join(".");
                return Err(format!("a key in [{table}] is a URL: write its name"));
            }
            path.push(key.to_owned());
            let name = path.join(".");
            match (examples.get(key).or_else(|| examples.get(ANY)), &mut *value) {
                (None, _) => return Err(unknown(&name, examples)),
                (Some(Value::Table(inner)), Value::Table(own)) => {
                    self.check_table(inner, own, path, are_texts)?;
                }
                (Some(Value::Table(_)), _) => {
                    return Err(format!("{name} must be a table: [{name}]"));
                }
                (Some(_), Value::String(text)) if is_misplaced_url(path, text) => {
                    return Err(format!("{name} must not be a URL"));
                }
                (Some(_), Value::String(text)) if is_secret(path) && text.trim() != text => {
                    return Err(format!(
                        "{name} begins or ends with white space, such as the line break of a file: remove it"
                    ));
                }
                (Some(example), _) => {
                    let bound = self.bound_entry(path).map(|(_, bound)| *bound);
                    if are_texts {
                        read_text(example, value);
                    }
                    check_value(example, bound, value)
                        .map_err(|problem| format!("{name} must be {problem}"))?;
                }
            }
            path.pop();
        }
        Ok(())
    }
}

/// Whether a text is a URL at a key that takes none. The URL may contain a password, so no error repeats it.
fn is_misplaced_url(path: &[String], text: &str) -> bool {
    is_url(text) && !is_address(path) && !is_secret(path)
}

fn unknown(name: &str, known: &Table) -> String {
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    format!(
        "unknown key {name}: remove it, or write one of {}",
        known.join(", ")
    )
}

/// Parses a text as the type of `example`. Leaves it unchanged if that fails: the check that follows reports
/// it.
fn read_text(example: &Value, value: &mut Value) {
    let Value::String(text) = value else {
        return;
    };
    let read = match example {
        Value::Integer(_) => text.trim().parse().ok().map(Value::Integer),
        Value::Boolean(_) => text.trim().parse().ok().map(Value::Boolean),
        _ => None,
    };
    if let Some(read) = read {
        *value = read;
    }
}

/// Checks a value. The error says what the value must be, and shows it only where it cannot be a secret.
fn check_value(example: &Value, bound: Option<Bound>, value: &Value) -> Result<(), String> {
    match (example, bound, value) {
        (Value::String(_), Some(Bound::Duration(least, most)), Value::String(text)) => {
            check_duration(text, least, most)
        }
        (Value::String(example), None, Value::String(text))
            if is_invalid_socket_address(example, text) =>
        {
            Err(format!(
                "an IP address and a port such as {example:?}, not {text:?}"
            ))
        }
        (Value::Integer(_), Some(Bound::Number(least, most)), Value::Integer(number))
            if !(least..=most).contains(number) =>
        {
            Err(format!("{least} to {most}, not {number}"))
        }
        (Value::Integer(_), _, Value::Integer(_))
        | (Value::Boolean(_), _, Value::Boolean(_))
        | (Value::String(_), _, Value::String(_))
        | (Value::Array(_), _, Value::String(_)) => Ok(()),
        (Value::Array(_), _, Value::Array(items)) if items.iter().all(Value::is_str) => Ok(()),
        (example, bound, value) => {
            let (expected, found) = (expected(example, bound), kind(value));
            Err(format!("{expected}, not {found}"))
        }
    }
}

/// Whether the example is a socket address and the text is not.
fn is_invalid_socket_address(example: &str, text: &str) -> bool {
    example.parse::<SocketAddr>().is_ok() && text.parse::<SocketAddr>().is_err()
}

fn check_duration(text: &str, least: Duration, most: Duration) -> Result<(), String> {
    let range = || {
        format!(
            "{} to {}",
            tidegate_duration::text(least),
            tidegate_duration::text(most)
        )
    };
    let duration = tidegate_duration::parse(text).map_err(|invalid| match invalid {
        InvalidDuration::WithoutUnit(_) => format!("{}; {invalid}", range()),
        InvalidDuration::TooLong(_) => format!("{}, not {text:?}", range()),
        InvalidDuration::Malformed(_) => format!(
            "a duration such as \"500ms\", \"30s\" or \"2m\", {}, not {text:?}",
            range()
        ),
    })?;
    if !(least..=most).contains(&duration) {
        return Err(format!("{}, not {text:?}", range()));
    }
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err(format!("whole milliseconds, not {text:?}"));
    }
    Ok(())
}

fn expected(example: &Value, bound: Option<Bound>) -> String {
    match (example, bound) {
        (_, Some(Bound::Number(least, most))) => format!("a whole number, {least} to {most}"),
        (_, Some(Bound::Duration(least, most))) => format!(
            "a duration in quotes such as \"500ms\", \"30s\" or \"2m\", {} to {}",
            tidegate_duration::text(least),
            tidegate_duration::text(most)
        ),
        (Value::Integer(_), _) => "a whole number".to_owned(),
        (Value::Boolean(_), _) => "true or false".to_owned(),
        (Value::Array(_), _) => "a list of texts, or one text with commas".to_owned(),
        _ => "a text in quotes".to_owned(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "another text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number with a fraction",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

#[cfg(test)]
mod tests;
