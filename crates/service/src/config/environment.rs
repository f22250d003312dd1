//! Settings in environment variables.
//!
//! Other programs put variables with our prefix into the environment too, so not every one of them is a setting.
//! But none that is a setting, or may be meant as one, is dropped without a word: a password that does not count
//! leaves the admin port open.

use std::ffi::{OsStr, OsString};

use toml::{Table, Value};

use super::parse::parse_toml;
use super::values::Path;
use super::{ConfigError, Layer, Sources, schema};

/// Between the parts of a key in the name of an environment variable: `PREFIX_LOG__LEVEL` is
/// `log.level`.
const SEPARATOR: &str = "__";

/// What the environment says.
pub(super) struct Environment {
    /// The settings in it.
    pub(super) settings: Table,
    /// Variables that may be meant as settings and are none, in the order of their names.
    pub(super) unknown: Vec<String>,
}

/// A variable that is a setting.
struct Setting<'a> {
    path: Path,
    /// The whole name of the variable.
    name: String,
    value: &'a OsStr,
}

/// The environment of this process.
#[must_use]
pub fn process_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Reads the variables that are settings.
pub(super) fn read(sources: &Sources<'_>) -> Result<Environment, ConfigError> {
    let defaults = parse_toml(sources.defaults).unwrap_or_default();
    let prefix = format!("{}_", sources.env_prefix);
    let mut settings = Vec::new();
    let mut unknown = Vec::new();
    for (name, value) in sources.environment {
        // Where it is not UTF-8 it is refused below, and this is what it is called.
        let text = name.to_string_lossy().into_owned();
        let Some(key) = text.strip_prefix(&prefix) else {
            continue;
        };
        let key = key.to_lowercase();
        let path: Path = key.split(SEPARATOR).map(str::to_owned).collect();
        if is_foreign(sources, &path) {
            continue;
        }
        if path.len() == 1 && !defaults.contains_key(&key) {
            if !is_service_link(&key) {
                unknown.push(text);
            }
            continue;
        }
        if name.to_str().is_none() {
            return Err(refused(format!("the name of {text:?} is not UTF-8")));
        }
        settings.push(Setting {
            path,
            name: text,
            value,
        });
    }
    unknown.sort();
    let settings = table(settings)?;
    Ok(Environment { settings, unknown })
}

/// Whether this is a key of another program, or a table of it.
fn is_foreign(sources: &Sources<'_>, path: &Path) -> bool {
    let table = path.first().map(String::as_str).unwrap_or_default();
    let key = path.join(".");
    sources.foreign_tables.contains(&table) || sources.foreign_keys.contains(&key.as_str())
}

/// Whether an orchestrator sets variables of such names for a service that is called as the prefix, or begins
/// with it: `PREFIX_SERVICE_HOST`, `PREFIX_API_SERVICE_PORT_HTTP`, `PREFIX_PORT`, `PREFIX_PORT_7777_TCP_ADDR`.
fn is_service_link(key: &str) -> bool {
    let words: Vec<&str> = key.split('_').collect();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    words.last() == Some(&"port")
        || words.windows(2).any(|pair| {
            matches!(pair, ["service", "host" | "port"]) || pair[0] == "port" && is_number(pair[1])
        })
}

/// The settings by their keys.
fn table(mut settings: Vec<Setting<'_>>) -> Result<Table, ConfigError> {
    // A table comes before what is in it.
    settings.sort_by(|one, other| (&one.path, &one.name).cmp(&(&other.path, &other.name)));
    for pair in settings.windows(2) {
        if pair[1].path.starts_with(&pair[0].path) {
            return Err(refused(format!(
                "{} and {} both set {}: remove one of them",
                pair[0].name,
                pair[1].name,
                pair[0].path.join(".")
            )));
        }
    }
    let mut table = Table::new();
    for Setting { path, name, value } in settings {
        // The value may be a secret.
        let Some(value) = value.to_str() else {
            return Err(refused(format!(
                "the value of {name} is not UTF-8: write it in UTF-8, or remove the variable"
            )));
        };
        schema::insert(&mut table, &path, Value::String(value.to_owned()));
    }
    Ok(table)
}

fn refused(problem: String) -> ConfigError {
    ConfigError::new(Layer::Environment, problem)
}
