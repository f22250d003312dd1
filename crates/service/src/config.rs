//! Settings in layers: a later layer wins over an earlier one, key by key.
//!
//! ```text
//!  defaults (built in) ─► foreign file ─► file (--config) ─► environment (PREFIX_…) ─► flags
//! ```
//!
//! Each layer is checked as soon as it is laid, so a mistake is reported with the layer it is in.
//! Unknown keys are refused by the settings' own `deny_unknown_fields`. Secrets are never shown: not in
//! what is printed, and not in what is said about mistakes.

mod parse;
mod print;
mod secrets;
#[cfg(test)]
mod tests;
mod values;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ::config::builder::DefaultState;
use ::config::{Config, ConfigBuilder, Environment, File, FileFormat, FileSourceString};
use serde::de::DeserializeOwned;

pub use parse::parse_toml;
pub use values::Values;

/// Between the parts of a key in the name of an environment variable: `PREFIX_LOG__LEVEL` is
/// `log.level`.
const SEPARATOR: &str = "__";

/// Where settings come from. It may hold secrets, so it cannot be shown.
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Built-in defaults, a TOML text that has every key.
    pub defaults: &'a str,
    /// Settings that were read from a file of another form.
    pub foreign: Option<Foreign<'a>>,
    /// A TOML file with the keys that differ. It must exist if given.
    pub file: Option<&'a Path>,
    /// What the names of environment variables begin with, without the `_` that follows.
    pub env_prefix: &'a str,
    /// Tables that another program with the same prefix has: variables about them are not for this one.
    pub foreign_tables: &'a [&'a str],
    /// The environment; see [`process_environment`].
    pub environment: &'a [(String, String)],
    /// Keys with dots between their parts, and the values that flags give them.
    pub flags: &'a [(&'a str, String)],
}

/// Settings that were read from a file of another form, in ours.
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
#[derive(Clone, Copy)]
pub struct Foreign<'a> {
    /// What to call the file, such as `file of X x.toml`.
    pub name: &'a str,
    /// Its settings under our names.
    pub values: &'a toml::Table,
}

/// One of the places where settings come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    /// The built-in defaults.
    Defaults,
    /// A file of another form, by this name.
    Foreign(String),
    /// A file.
    File(PathBuf),
    /// The process environment.
    Environment,
    /// The command line.
    Flags,
    /// Several of them together.
    Together,
}

impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaults => out.write_str("built-in defaults"),
            Self::Foreign(name) => out.write_str(name),
            Self::File(path) => write!(out, "config file {}", path.display()),
            Self::Environment => out.write_str("environment"),
            Self::Flags => out.write_str("command line"),
            Self::Together => out.write_str("configuration"),
        }
    }
}

/// Settings that cannot be used. The text says where, which key, and what is expected.
#[derive(Debug, thiserror::Error)]
#[error("{layer}: {problem}")]
pub struct ConfigError {
    /// Where the mistake is.
    pub layer: Layer,
    /// What is wrong.
    pub problem: String,
}

impl ConfigError {
    fn new(layer: Layer, problem: impl fmt::Display) -> Self {
        let problem = problem.to_string();
        Self { layer, problem }
    }
}

/// Settings, and what they were made from.
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
#[derive(Clone)]
pub struct Loaded<T> {
    /// The settings.
    pub settings: T,
    /// Every key with its value and the layer that it comes from.
    pub values: Values,
}

/// Reads settings from all sources.
///
/// A variable without `__` counts only if the defaults have a key of its name: orchestrators put
/// variables such as `TIDEGATE_PORT` into every process. See [`ignored_variables`].
///
/// # Errors
/// A file that cannot be read, a key that nobody knows, a value of the wrong type, a secret that was
/// hidden when it was printed.
pub fn load<T: DeserializeOwned>(sources: &Sources<'_>) -> Result<Loaded<T>, ConfigError> {
    let mut stack = Stack::new();
    let mut settings: T = stack.lay(Layer::Defaults, |all| {
        Ok(all.add_source(toml_source(sources.defaults)))
    })?;
    if let Some(foreign) = sources.foreign {
        let text = toml::to_string(foreign.values).unwrap_or_default();
        settings = stack.lay(Layer::Foreign(foreign.name.to_owned()), |all| {
            Ok(all.add_source(toml_source(&text)))
        })?;
    }
    if let Some(path) = sources.file {
        let layer = Layer::File(path.to_owned());
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::new(layer.clone(), error))?;
        parse_toml(&text).map_err(|problem| ConfigError::new(layer.clone(), problem))?;
        settings = stack.lay(layer, |all| Ok(all.add_source(toml_source(&text))))?;
    }
    let (counted, _) = split_environment(sources);
    if !counted.is_empty() {
        let source = environment(sources.env_prefix, counted);
        settings = stack.lay(Layer::Environment, |all| Ok(all.add_source(source.clone())))?;
    }
    if !sources.flags.is_empty() {
        settings = stack.lay(Layer::Flags, |all| {
            let mut flags = sources.flags.iter();
            flags.try_fold(all, |all, (key, value)| {
                all.set_override(key, value.as_str())
            })
        })?;
    }
    stack.values.refuse_hidden()?;
    Ok(Loaded {
        settings,
        values: stack.values,
    })
}

/// The layers that were laid so far.
struct Stack {
    all: ConfigBuilder<DefaultState>,
    values: Values,
}

impl Stack {
    fn new() -> Self {
        Self {
            all: Config::builder(),
            values: Values::default(),
        }
    }

    /// Lays one more layer and checks the whole. `add` is called twice: on the whole, and on nothing,
    /// which tells what the layer itself has.
    fn lay<T: DeserializeOwned>(
        &mut self,
        layer: Layer,
        add: impl Fn(Builder) -> Result<Builder, ::config::ConfigError>,
    ) -> Result<T, ConfigError> {
        let all = std::mem::take(&mut self.all);
        let plain = |error: ::config::ConfigError| ConfigError::new(layer.clone(), error);
        let all = add(all).map_err(plain)?;
        let whole = all.build_cloned().map_err(plain)?;
        let alone = add(Config::builder())
            .and_then(Builder::build)
            .map_err(plain)?;
        self.all = all;
        let values = whole.clone().try_deserialize().map_err(plain)?;
        let own = alone.try_deserialize().map_err(plain)?;
        self.values.lay(&layer, values, &own);
        whole.try_deserialize().map_err(|error| {
            let problem = self.values.without_secrets(&error.to_string());
            ConfigError::new(layer, problem)
        })
    }
}

type Builder = ConfigBuilder<DefaultState>;

fn toml_source(text: &str) -> File<FileSourceString, FileFormat> {
    File::from_str(text, FileFormat::Toml)
}

/// Variables that begin with the prefix but are not settings: worth a warning, since one of them may
/// be a misspelt key.
#[must_use]
pub fn ignored_variables(sources: &Sources<'_>) -> Vec<String> {
    let mut names = split_environment(sources).1;
    names.sort();
    names
}

/// The environment of this process, without what is not text.
#[must_use]
pub fn process_environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn environment(prefix: &str, counted: HashMap<String, String>) -> Environment {
    Environment::with_prefix(prefix)
        .prefix_separator("_")
        .separator(SEPARATOR)
        .source(Some(counted))
}

/// The variables that are settings, and the names of those that only look like it.
fn split_environment(sources: &Sources<'_>) -> (HashMap<String, String>, Vec<String>) {
    let prefix = format!("{}_", sources.env_prefix);
    let mut counted = HashMap::new();
    let mut ignored = Vec::new();
    for (name, value) in sources.environment {
        let Some(key) = name.strip_prefix(&prefix) else {
            continue;
        };
        let key = key.to_lowercase();
        let is_setting = match key.split_once(SEPARATOR) {
            Some((table, _)) => !sources.foreign_tables.contains(&table),
            None => has_top_level_key(sources.defaults, &key),
        };
        if is_setting {
            counted.insert(name.clone(), value.clone());
        } else {
            ignored.push(name.clone());
        }
    }
    (counted, ignored)
}

fn has_top_level_key(defaults: &str, key: &str) -> bool {
    parse_toml(defaults).is_ok_and(|keys| keys.contains_key(key))
}
