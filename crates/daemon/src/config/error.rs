//! Errors of settings, with their layer.

use std::fmt;
use std::path::PathBuf;

/// One source of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingsLayer {
    /// The built-in defaults.
    Defaults,
    /// A file in a foreign format, by this name.
    Foreign(String),
    /// A TOML file.
    File(PathBuf),
    /// The process environment.
    Environment,
    /// The command line.
    Flags,
    /// Several sources combined.
    Merged,
}

impl fmt::Display for SettingsLayer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaults => out.write_str("built-in defaults"),
            Self::Foreign(name) => out.write_str(name),
            Self::File(path) => write!(out, "config file {}", path.display()),
            Self::Environment => out.write_str("environment"),
            Self::Flags => out.write_str("command line"),
            Self::Merged => out.write_str("configuration"),
        }
    }
}

/// Settings that cannot be used. The message names the layer, the key, and the expected value.
#[derive(Debug, thiserror::Error)]
#[error("{layer}: {problem}")]
pub struct ConfigError {
    /// The layer that has the error.
    pub layer: SettingsLayer,
    /// The key and its error, without secrets.
    pub problem: String,
}
