//! Settings from layers. A later layer overrides an earlier one, key by key.
//!
//! ```text
//!  defaults (built in) ─► foreign file ─► file (--config) ─► environment (PREFIX_…) ─► flags
//! ```
//!
//! Each layer is checked before the next layer is merged, so an error names the layer that causes it. The
//! [`Schema`] checks unknown keys, types and bounds; deserialization checks the rest. Secrets appear neither in
//! printed settings nor in error messages.

mod environment;
mod error;
mod file;
mod parse;
mod print;
mod rows;
mod schema;
mod secrets;
mod sources;
mod tables;
#[cfg(test)]
mod tests;
mod values;

use serde::de::DeserializeOwned;
use toml::Table;

pub use environment::process_environment;
pub use error::{ConfigError, SettingsLayer};
pub use file::read_file;
pub use parse::parse_toml;
pub use rows::Bound;
pub use schema::Schema;
pub use sources::{ForeignSettings, Sources};
pub use values::ConfigValues;

use tables::{insert, parts};

/// Settings, with the values they were built from.
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
#[derive(Clone)]
pub struct LoadedConfig<T> {
    pub settings: T,
    /// Every key with its value and the layer that set it.
    pub values: ConfigValues,
    /// Environment variables with our prefix that match no key, and that no orchestrator sets. One may be a
    /// misspelled key.
    pub unknown_variables: Vec<String>,
}

/// Reads settings from all sources. Reads files, so it may block.
///
/// A variable without `__` counts only if the defaults have a key of its name: orchestrators put
/// variables such as `TIDEGATE_PORT` into every process.
///
/// # Errors
/// A file cannot be read, a key is unknown, a value has the wrong type or is out of bounds, a variable is not
/// UTF-8, two variables set one key, or a value is the `<hidden>` that printed settings have in place of a
/// secret.
pub fn load<T: DeserializeOwned>(sources: &Sources<'_>) -> Result<LoadedConfig<T>, ConfigError> {
    let mut values = ConfigValues::default();
    // Checks one more layer, merges it, and deserializes the result.
    let mut lay = |layer: SettingsLayer, own: Result<Table, String>| {
        let are_texts = matches!(layer, SettingsLayer::Environment | SettingsLayer::Flags);
        let laid = own.and_then(|mut own| {
            sources.schema.check(&mut own, are_texts)?;
            values.merge_layer(&layer, own);
            values.read()
        });
        laid.map_err(|problem| ConfigError { layer, problem })
    };
    lay(SettingsLayer::Defaults, Ok(sources.schema.defaults.clone()))?;
    if let Some(foreign) = sources.foreign {
        let layer = SettingsLayer::Foreign(foreign.name.to_owned());
        lay(layer, Ok(foreign.values.clone()))?;
    }
    if let Some(path) = sources.file {
        let own = read_file(path).and_then(|text| parse_toml(&text));
        lay(SettingsLayer::File(path.to_owned()), own)?;
    }
    let mut unknown_variables = Vec::new();
    let own = environment::read(sources, &mut unknown_variables);
    lay(SettingsLayer::Environment, own)?;
    let mut flags = Table::new();
    for (key, text) in sources.flags {
        insert(&mut flags, &parts(key), text.clone().into());
    }
    let settings: T = lay(SettingsLayer::Flags, Ok(flags))?;
    values.check_not_hidden()?;
    Ok(LoadedConfig {
        settings,
        values,
        unknown_variables,
    })
}
