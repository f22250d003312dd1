//! Type and bounds of each key. The type is the type of the key's default.
//!
//! Files are not converted, since a conversion would guess: `1.5` is neither `true` nor 1. The environment and
//! flags have only texts; a text from there is parsed as the type of its key.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_core::duration::InvalidDuration;
use toml::{Table, Value};

use super::error::{ConfigError, SettingsLayer};
use super::parse::parse_toml;
use super::rows::{Bound, Rows, with_examples};
use super::secrets::{is_address, is_secret, is_url};
use super::tables::{KeyPath, insert, leaves, look_up, parts};

/// Stands for any name in a defaults file.
const ANY: &str = "NAME";

/// All known keys, with the default, the type and the bounds of each.
#[derive(Debug, Clone)]
pub struct Schema {
    /// The defaults; some keys have none.
    pub(super) defaults: Table,
    /// An example value for each key; its type is the key's type.
    pub(super) examples: Table,
    bounds: Vec<(KeyPath, Bound)>,
    pub(super) reloadable: Vec<KeyPath>,
}

impl Schema {
    /// Reads the rows of a defaults file: a TOML text with a line for each key, also for a key without a default.
    ///
    /// # Errors
    /// The text is not TOML, or a comment behind a value has another form.
    pub fn new(defaults: &str) -> Result<Self, ConfigError> {
        let layer = SettingsLayer::Defaults;
        Self::read(defaults).map_err(|problem| ConfigError { layer, problem })
    }

    fn read(defaults: &str) -> Result<Self, String> {
        let text = with_examples(defaults);
        let rows = Rows::read(&text)?;
        let mut schema = Self {
            defaults: parse_toml(defaults)?,
            examples: parse_toml(&text)?,
            bounds: rows.bounds,
            reloadable: rows.reloadable,
        };
        for (copy, original) in rows.copies {
            schema.copy_table(&original, &copy)?;
        }
        Ok(schema)
    }

    fn copy_table(&mut self, original: &[String], copy: &[String]) -> Result<(), String> {
        let found = look_up(&self.examples, original).cloned();
        let found = found.ok_or_else(|| format!("there is no table {}", original.join(".")))?;
        insert(&mut self.examples, copy, found);
        let bounds = self.bounds.iter();
        let copied = bounds.filter_map(|(path, bound)| {
            let key = path.strip_prefix(original)?;
            Some(([copy, key].concat(), *bound))
        });
        let copied: Vec<_> = copied.collect();
        self.bounds.extend(copied);
        Ok(())
    }

    /// The defaults, without the keys that have none.
    #[must_use]
    pub const fn defaults(&self) -> &Table {
        &self.defaults
    }

    /// The bounds of a key, which is a dotted path.
    #[must_use]
    pub fn bound(&self, key: &str) -> Option<Bound> {
        self.bound_of(&parts(key))
    }

    /// Returns the numbers and durations without a bound. Tests require that there are none.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        let needs_bound = |example: &Value| match example {
            Value::Integer(_) | Value::Float(_) => true,
            Value::String(text) => tidegate_core::duration::parse(text).is_ok(),
            _ => false,
        };
        let examples = leaves(&self.examples).into_iter();
        let unbounded = examples
            .filter(|(path, example)| needs_bound(example) && self.bound_of(path).is_none());
        unbounded.map(|(path, _)| path.join(".")).collect()
    }

    fn bound_of(&self, path: &[String]) -> Option<Bound> {
        let fits = |known: &[String]| {
            let mut pairs = known.iter().zip(path);
            known.len() == path.len() && pairs.all(|(known, part)| known == ANY || known == part)
        };
        let found = self.bounds.iter().find(|(known, _)| fits(known));
        found.map(|(_, bound)| *bound)
    }

    /// Checks the values of a layer. If they are texts (`are_texts`), first converts them to the types of
    /// their keys.
    ///
    /// # Errors
    /// Names the key and the accepted values. A value that may be a secret is not repeated.
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
                    let bound = self.bound_of(path);
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

/// Checks a value. The error gives the rule for it, and shows the value only where it cannot be a secret.
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
            tidegate_core::duration::text(least),
            tidegate_core::duration::text(most)
        )
    };
    let duration = tidegate_core::duration::parse(text).map_err(|invalid| match invalid {
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
            tidegate_core::duration::text(least),
            tidegate_core::duration::text(most)
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
