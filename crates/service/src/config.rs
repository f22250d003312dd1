//! Settings in layers: a later layer wins over an earlier one, key by key.
//!
//! ```text
//!  defaults (built in) ─► foreign file ─► file (--config) ─► environment (PREFIX_…) ─► flags
//! ```
//!
//! Each layer is checked as soon as it is laid, so a mistake is reported with the layer it is in: unknown
//! keys, types and bounds by the [`Schema`], the rest by the settings themselves. Secrets are never shown:
//! not in what is printed, and not in what is said about mistakes.

mod environment;
mod file;
mod parse;
mod print;
mod schema;
mod secrets;
#[cfg(test)]
mod tests;
mod values;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::{Table, Value};

pub use environment::process_environment;
pub use file::read_file;
pub use parse::parse_toml;
pub use schema::{Bound, Schema};
pub use values::Values;

/// Where settings come from. It may hold secrets, so it cannot be shown.
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Built-in defaults, a TOML text that has every key.
    pub defaults: &'a str,
    /// What each key accepts.
    pub schema: &'a Schema,
    /// Settings that were read from a file of another form.
    pub foreign: Option<Foreign<'a>>,
    /// A TOML file with the keys that differ. It must exist if given.
    pub file: Option<&'a Path>,
    /// What the names of environment variables begin with, without the `_` that follows.
    pub env_prefix: &'a str,
    /// Tables that another program with the same prefix has: variables about them are not for this one.
    pub foreign_tables: &'a [&'a str],
    /// Its other keys, with dots between their parts.
    pub foreign_keys: &'a [&'a str],
    /// The environment; see [`process_environment`].
    pub environment: &'a [(OsString, OsString)],
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
    /// Environment variables that may be meant as settings and are none: one may be a misspelt key.
    pub unknown_variables: Vec<String>,
}

/// Reads settings from all sources.
///
/// A variable without `__` counts only if the defaults have a key of its name: orchestrators put
/// variables such as `TIDEGATE_PORT` into every process.
///
/// # Errors
/// A file that cannot be read, an unknown key, a value of the wrong type or out of bounds, a variable that is not
/// UTF-8, two variables for one key, a secret that was hidden when it was printed.
pub fn load<T: DeserializeOwned>(sources: &Sources<'_>) -> Result<Loaded<T>, ConfigError> {
    let mut stack = Stack {
        schema: sources.schema,
        values: Values::default(),
    };
    let defaults = parse_toml(sources.defaults)
        .map_err(|problem| ConfigError::new(Layer::Defaults, problem))?;
    let mut settings: T = stack.lay(Layer::Defaults, defaults)?;
    if let Some(foreign) = sources.foreign {
        let layer = Layer::Foreign(foreign.name.to_owned());
        settings = stack.lay(layer, foreign.values.clone())?;
    }
    if let Some(path) = sources.file {
        let layer = Layer::File(path.to_owned());
        let text = read_file(path).map_err(|problem| ConfigError::new(layer.clone(), problem))?;
        let values =
            parse_toml(&text).map_err(|problem| ConfigError::new(layer.clone(), problem))?;
        settings = stack.lay(layer, values)?;
    }
    let environment = environment::read(sources)?;
    if !environment.settings.is_empty() {
        settings = stack.lay(Layer::Environment, environment.settings)?;
    }
    if !sources.flags.is_empty() {
        let mut flags = Table::new();
        for (key, text) in sources.flags {
            let path: values::Path = key.split('.').map(str::to_owned).collect();
            schema::insert(&mut flags, &path, Value::String(text.clone()));
        }
        settings = stack.lay(Layer::Flags, flags)?;
    }
    stack.values.refuse_hidden()?;
    Ok(Loaded {
        settings,
        values: stack.values,
        unknown_variables: environment.unknown,
    })
}

/// The layers that were laid so far.
struct Stack<'a> {
    schema: &'a Schema,
    values: Values,
}

impl Stack<'_> {
    /// Checks one more layer, lays it, and makes settings of the whole.
    fn lay<T: DeserializeOwned>(&mut self, layer: Layer, mut own: Table) -> Result<T, ConfigError> {
        let are_texts = matches!(layer, Layer::Environment | Layer::Flags);
        self.schema
            .check(&mut own, are_texts)
            .map_err(|problem| ConfigError::new(layer.clone(), problem))?;
        self.values.lay(&layer, own);
        self.values
            .read()
            .map_err(|problem| ConfigError::new(layer, problem))
    }
}
