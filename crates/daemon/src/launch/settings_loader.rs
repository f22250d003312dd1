//! Loads the settings of this process, at the start and at each reload.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

use crate::config::{
    ConfigValues, ForeignSettings, LoadedConfig, Schema, Sources, load, process_environment,
    read_file,
};
use crate::logs::LogError;

use crate::launch::flags::{Flag, LaunchFlags};
use crate::launch::lmstfy::{self, LmstfySettings};
use crate::launch::settings::Settings;

/// Prefix of environment variables.
const ENV_PREFIX: &str = "TIDEGATE";

/// Keys that other pools do not inherit from the defaults of the default pool.
const OF_ONE_POOL: [&str; 3] = ["url", "sentinels", "cluster"];

/// The sources of the settings of this process.
#[derive(Clone)]
pub(crate) struct SettingsLoader {
    flags: LaunchFlags,
    overrides: Vec<(&'static str, String)>,
    environment: Vec<(OsString, OsString)>,
}

/// Loaded and checked settings.
pub(crate) struct LoadedSettings<C> {
    pub(crate) settings: C,
    pub(crate) values: ConfigValues,
    pub(crate) schema: Schema,
    /// Settings of an lmstfy file or of the environment that are not used, with the reasons.
    pub(crate) remarks: Vec<String>,
}

impl SettingsLoader {
    /// `own` has the daemon's own flags.
    pub(crate) fn new(flags: impl Into<LaunchFlags>, own: impl IntoIterator<Item = Flag>) -> Self {
        let flags = flags.into();
        let given = flags.settings.iter().cloned().chain(own);
        let given = given.filter_map(|(key, value)| Some((key, value?)));
        Self {
            overrides: given.collect(),
            flags,
            environment: process_environment(),
        }
    }

    /// Reads the files and loads the settings. Blocks on file I/O.
    ///
    /// # Errors
    /// A file cannot be read, or a setting is invalid.
    pub(crate) fn load<C: Settings>(&self) -> Result<LoadedSettings<C>, String> {
        let translated = self.load_lmstfy::<C>()?;
        let name = self.lmstfy_layer_name();
        let schema = Schema::new(C::DEFAULTS).map_err(|error| error.to_string())?;
        let sources = Sources {
            schema: &schema,
            foreign: translated.as_ref().map(|translated| ForeignSettings {
                name: &name,
                values: &translated.values,
            }),
            file: self.flags.config.as_deref(),
            env_prefix: ENV_PREFIX,
            sibling: C::SIBLING,
            environment: &self.environment,
            flags: &self.overrides,
        };
        let loaded: LoadedConfig<C> = load(&sources).map_err(|error| error.to_string())?;
        check(&loaded.settings).map_err(|problem| loaded.values.without_secrets(&problem))?;
        let of_file = translated.into_iter().flat_map(|file| file.remarks);
        let of_file = of_file.map(|remark| format!("{name}: {remark}"));
        let unknown = loaded.unknown_variables.iter();
        let unknown = unknown.map(|variable| {
            format!("environment: {variable} is ignored: no setting has this name")
        });
        Ok(LoadedSettings {
            settings: loaded.settings,
            values: loaded.values,
            schema,
            remarks: of_file.chain(unknown).collect(),
        })
    }

    fn load_lmstfy<C: Settings>(&self) -> Result<Option<LmstfySettings>, String> {
        let Some(path) = &self.flags.lmstfy_config else {
            return Ok(None);
        };
        let translated = read_file(path)
            .and_then(|text| lmstfy::translate(&text))
            .map_err(|problem| format!("{}: {problem}", self.lmstfy_layer_name()))?;
        Ok(Some(translated.keep_only(C::FROM_LMSTFY, C::PROGRAM)))
    }

    fn lmstfy_layer_name(&self) -> String {
        let path = self.flags.lmstfy_config.as_deref();
        format!("lmstfy file {}", path.unwrap_or(Path::new("")).display())
    }
}

/// Checks dependencies between settings, the log level, and the URL of the collector.
pub(crate) fn check<C: Settings>(settings: &C) -> Result<(), String> {
    settings
        .check()
        .map_err(|problem| format!("configuration: {problem}"))?;
    let traces = settings.traces().check();
    traces.map_err(|problem| format!("configuration: {problem}"))?;
    settings.log().check().map_err(|problem| {
        let advice = match problem {
            LogError::InvalidRule(_) => {
                "; write a level such as info, or rules such as info,tidegate_api=debug"
            }
            _ => "",
        };
        format!("configuration: {problem}{advice}")
    })
}

impl<C: Settings> LoadedSettings<C> {
    /// Returns the settings as TOML, with the remarks as comments.
    pub(crate) fn print(&self) -> String {
        let pools = self.schema.defaults().get("pool");
        let template = pools
            .and_then(|pools| pools.get("default"))
            .and_then(toml::Value::as_table);
        let template = template.cloned().unwrap_or_default();
        let values = self
            .values
            .with_missing_keys("pool", &template, &OF_ONE_POOL);
        let mut text = format!("# Settings of {}.\n", C::PROGRAM);
        for remark in &self.remarks {
            // A line break would end the comment.
            let _ = writeln!(text, "# {}", remark.replace(char::is_control, " "));
        }
        text + &values.print()
    }
}
