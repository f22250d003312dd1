//! Where settings come from.

use std::ffi::OsString;
use std::path::Path;

use super::schema::Schema;

/// The sources of settings. They may hold secrets, so there is no `Debug`.
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The built-in defaults, with the type and the bounds of each key.
    pub schema: &'a Schema,
    /// Settings read from a file in a foreign format (lmstfy's).
    pub foreign: Option<ForeignSettings<'a>>,
    /// A TOML file with the keys that differ from the defaults. If given, it must exist.
    pub file: Option<&'a Path>,
    /// The prefix of environment variables, without the `_` that follows it.
    pub env_prefix: &'a str,
    /// The defaults file of another program with the same prefix. Variables for tables and keys that only that program
    /// has are ignored.
    pub sibling: &'a str,
    /// The environment; see [`process_environment`](super::process_environment).
    pub environment: &'a [(OsString, OsString)],
    /// Keys as dotted paths, with the values that command-line flags give them.
    pub flags: &'a [(&'a str, String)],
}

/// Settings read from a file in a foreign format, converted to our keys.
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
#[derive(Clone, Copy)]
pub struct ForeignSettings<'a> {
    /// Name of the file in messages, such as `file of X x.toml`.
    pub name: &'a str,
    /// The settings under our keys.
    pub values: &'a toml::Table,
}
