//! What each key accepts: values of the type of its default, within bounds.
//!
//! Nothing is converted, since a conversion is a guess: `1.5` is neither `true` nor 1. The environment and
//! flags have only texts, so there a text is read as the type of the key.

use std::net::SocketAddr;
use std::time::Duration;

use humantime::{format_duration, parse_duration};
use toml::{Table, Value};

use super::ConfigError;
use super::Layer;
use super::parse::parse_toml;
use super::secrets::{is_address, is_secret, is_url};

/// In a table of examples: stands for any name.
const ANY: &str = "*";

/// The values that a key accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A whole number, from the first to the second.
    Number(i64, i64),
    /// A duration of whole milliseconds, from the first to the second.
    Duration(Duration, Duration),
}

/// The keys that there are, with the type and the bounds of each.
#[derive(Debug, Clone)]
pub struct Schema {
    /// A value for each key.
    examples: Table,
    bounds: Vec<(Vec<String>, Bound)>,
}

impl Schema {
    /// The keys of two TOML texts: `defaults`, and `optional` for keys without a default, where `*` stands
    /// for any name. In the keys of `bounds`, with dots between their parts, `*` does too.
    ///
    /// # Errors
    /// One of the texts is not TOML.
    pub fn new(
        defaults: &str,
        optional: &str,
        bounds: &[(&str, Bound)],
    ) -> Result<Self, ConfigError> {
        let parsed =
            |text| parse_toml(text).map_err(|problem| ConfigError::new(Layer::Defaults, problem));
        let mut examples = parsed(defaults)?;
        merge(&mut examples, parsed(optional)?);
        let bounds = bounds.iter().map(|(key, bound)| (parts(key), *bound));
        Ok(Self {
            examples,
            bounds: bounds.collect(),
        })
    }

    /// Has the table `copy` accept the keys of the table `original`, with these bounds in both. `copy` may end
    /// with `*`.
    pub fn copy_table(&mut self, original: &str, copy: &str, bounds: &[(&str, Bound)]) {
        let mut found = &Value::Table(self.examples.clone());
        for part in parts(original) {
            let Some(inner) = found.get(&part) else {
                return;
            };
            found = inner;
        }
        let found = found.clone();
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

    /// Numbers and durations without a bound, and bounds of keys that do not exist. Tests expect none.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        let mut bounded = Vec::new();
        self.collect_gaps(&self.examples, &mut Vec::new(), &mut gaps, &mut bounded);
        let unused = self.bounds.iter().map(|(path, _)| path);
        let unused = unused.filter(|path| !bounded.contains(path));
        gaps.extend(unused.map(|path| path.join(".")));
        gaps
    }

    fn collect_gaps<'a>(
        &'a self,
        table: &Table,
        path: &mut Vec<String>,
        gaps: &mut Vec<String>,
        bounded: &mut Vec<&'a Vec<String>>,
    ) {
        for (key, example) in table {
            path.push(key.clone());
            let needs_bound = match example {
                Value::Table(inner) => {
                    self.collect_gaps(inner, path, gaps, bounded);
                    false
                }
                Value::Integer(_) | Value::Float(_) => true,
                Value::String(text) => parse_duration(text).is_ok(),
                _ => false,
            };
            match self.bound_entry(path) {
                Some((known, _)) => bounded.push(known),
                None if needs_bound => gaps.push(path.join(".")),
                None => {}
            }
            path.pop();
        }
    }

    fn bound_entry(&self, path: &[String]) -> Option<&(Vec<String>, Bound)> {
        let fits = |known: &[String]| {
            let mut pairs = known.iter().zip(path);
            known.len() == path.len() && pairs.all(|(known, part)| known == ANY || known == part)
        };
        self.bounds.iter().find(|(known, _)| fits(known))
    }

    /// Checks the values of a layer. Where they are texts (`are_texts`), they become values of the type of
    /// their key.
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

/// Whether a text is a URL where none belongs. It may have a password in it, so it must not be in any error.
fn is_misplaced_url(path: &[String], text: &str) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    is_url(text) && !is_address(&path) && !is_secret(&path)
}

fn parts(key: &str) -> Vec<String> {
    key.split('.').map(str::to_owned).collect()
}

/// Lays `upper` over `lower`, key by key.
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

/// Puts a value where `path` says. What is in its way gives way.
pub(super) fn insert(table: &mut Table, path: &[String], value: Value) {
    match path {
        [] => {}
        [key] => {
            table.insert(key.clone(), value);
        }
        [key, rest @ ..] => {
            let inner = table
                .entry(key.clone())
                .or_insert_with(|| Table::new().into());
            if !inner.is_table() {
                *inner = Table::new().into();
            }
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

fn unknown(name: &str, known: &Table) -> String {
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    format!(
        "unknown key {name}: remove it, or write one of {}",
        known.join(", ")
    )
}

/// Makes a text a value of the type of `example`, if it can be one.
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

/// What a value must be, if it is not that. The value is shown only where it cannot be a secret.
fn check_value(example: &Value, bound: Option<Bound>, value: &Value) -> Result<(), String> {
    match (example, bound, value) {
        (Value::String(_), Some(Bound::Duration(least, most)), Value::String(text)) => {
            check_duration(text, least, most)
        }
        (Value::String(example), None, Value::String(text))
            if is_no_socket_address(example, text) =>
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

/// Whether a text is no address to listen on where the example is one.
fn is_no_socket_address(example: &str, text: &str) -> bool {
    example.parse::<SocketAddr>().is_ok() && text.parse::<SocketAddr>().is_err()
}

fn check_duration(text: &str, least: Duration, most: Duration) -> Result<(), String> {
    let range = || format!("{} to {}", format_duration(least), format_duration(most));
    let Ok(duration) = parse_duration(text) else {
        return Err(format!(
            "a duration such as \"500ms\", \"30s\" or \"2m\", {}, not {text:?}",
            range()
        ));
    };
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
            format_duration(least),
            format_duration(most)
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
