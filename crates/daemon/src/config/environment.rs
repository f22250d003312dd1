//! Settings from environment variables.
//!
//! Other programs set variables with our prefix too, so not every such variable is a setting. But no variable
//! that is a setting, or may be meant as one, is ignored silently: an ignored account password would leave the
//! admin port open.

use std::ffi::{OsStr, OsString};

use toml::{Table, Value};

use super::parse::parse_toml;
use super::rows::with_examples;
use super::sources::Sources;
use super::tables::{KeyPath, insert, look_up};

/// Separates the parts of a key in the name of a variable: `PREFIX_LOG__LEVEL` sets `log.level`.
const SEPARATOR: &str = "__";

/// A variable that sets a key.
struct Setting<'a> {
    path: KeyPath,
    /// The full name of the variable.
    name: String,
    value: &'a OsStr,
}

#[must_use]
pub fn process_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Reads the variables that are settings, as texts under their keys. Adds variables that match no key but may be meant
/// as settings to `unknown`, sorted by name.
pub(super) fn read(sources: &Sources<'_>, unknown: &mut Vec<String>) -> Result<Table, String> {
    let sibling = parse_toml(&with_examples(sources.sibling)).unwrap_or_default();
    let prefix = format!("{}_", sources.env_prefix);
    let mut settings = Vec::new();
    for (name, value) in sources.environment {
        // A name that is not UTF-8 is rejected below; the lossy text names it in the error.
        let text = name.to_string_lossy().into_owned();
        let Some(key) = text.strip_prefix(&prefix) else {
            continue;
        };
        let key = key.to_lowercase();
        let path: KeyPath = key.split(SEPARATOR).map(str::to_owned).collect();
        if is_foreign(&path, &sources.schema.examples, &sibling) {
            continue;
        }
        if path.len() == 1 && !sources.schema.defaults.contains_key(&key) {
            if !is_service_link(&key) {
                unknown.push(text);
            }
            continue;
        }
        if name.to_str().is_none() {
            return Err(format!("the name of {text:?} is not UTF-8"));
        }
        settings.push(Setting {
            path,
            name: text,
            value,
        });
    }
    unknown.sort();
    table(settings)
}

/// Whether only the other program with our prefix has this key, or its table.
fn is_foreign(path: &KeyPath, own: &Table, sibling: &Table) -> bool {
    let is_foreign =
        |path: &[String]| look_up(sibling, path).is_some() && look_up(own, path).is_none();
    let has_table = look_up(sibling, &path[..1]).is_some_and(Value::is_table);
    has_table && is_foreign(&path[..1]) || is_foreign(path)
}

/// Whether Kubernetes or Docker set variables of this form for a service whose name is, or begins with, the
/// prefix: `PREFIX_SERVICE_HOST`, `PREFIX_API_SERVICE_PORT_HTTP`, `PREFIX_PORT`, `PREFIX_PORT_7777_TCP_ADDR`.
fn is_service_link(key: &str) -> bool {
    let words: Vec<&str> = key.split('_').collect();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    words.last() == Some(&"port")
        || words.windows(2).any(|pair| {
            matches!(pair, ["service", "host" | "port"]) || pair[0] == "port" && is_number(pair[1])
        })
}

/// Builds a table from the variables. Rejects two variables for one key.
fn table(mut settings: Vec<Setting<'_>>) -> Result<Table, String> {
    // Sorted by path, a table comes directly before its keys.
    settings.sort_by(|one, other| (&one.path, &one.name).cmp(&(&other.path, &other.name)));
    for pair in settings.windows(2) {
        if pair[1].path.starts_with(&pair[0].path) {
            return Err(format!(
                "{} and {} both set {}: remove one of them",
                pair[0].name,
                pair[1].name,
                pair[0].path.join(".")
            ));
        }
    }
    let mut table = Table::new();
    for Setting { path, name, value } in settings {
        // The value may be a secret.
        let Some(value) = value.to_str() else {
            return Err(format!(
                "the value of {name} is not UTF-8: write it in UTF-8, or remove the variable"
            ));
        };
        insert(&mut table, &path, value.into());
    }
    Ok(table)
}
