//! How the settings of this process are made, so that they can be made again.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tidegate_service::{
    Bound, Foreign, Loaded, LogConfig, LogError, Sources, Values, load, parse_toml,
    process_environment, read_file,
};

use crate::CommonFlags;
use crate::flags::Override;
use crate::lmstfy::{self, Translated};
use crate::schema::schema;

/// What the names of environment variables begin with.
const ENV_PREFIX: &str = "TIDEGATE";

/// What a new pool takes from the defaults of the default pool, all but where it is.
const OF_ONE_POOL: [&str; 3] = ["url", "sentinels", "cluster"];

/// What a daemon says about its settings.
pub trait Settings: DeserializeOwned + Clone + Send + Sync + 'static {
    /// The name of the program.
    const PROGRAM: &'static str;
    /// The built-in defaults, a TOML text that has every key.
    const DEFAULTS: &'static str;
    /// The keys without a default, a TOML text with a value of the right type for each. `*` stands for any
    /// name. The keys of pools need not be here.
    const OPTIONAL: &'static str;
    /// The least and the largest value of every number and duration outside of pools.
    const BOUNDS: &'static [(&'static str, Bound)];
    /// Tables that have the keys of a pool, beside those in `pool`.
    const DEPLOYMENTS: &'static [&'static str];
    /// The keys, and tables, that a running process can take over.
    const RELOADABLE: &'static [&'static str];
    /// The tables that only the other daemon has. Both may share an environment.
    const FOREIGN_TABLES: &'static [&'static str];
    /// The other keys that only the other daemon has.
    const FOREIGN_KEYS: &'static [&'static str] = &[];
    /// The keys, and tables, that a file of lmstfy speaks about.
    const FROM_LMSTFY: &'static [&'static str];

    /// Checks what types and bounds cannot: what depends on other settings. By default nothing does.
    ///
    /// # Errors
    /// Says which setting is wrong, and what it should be.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// How much is logged, and how.
    fn log(&self) -> &LogConfig;

    /// Where the id of the process is written; empty = nowhere.
    fn pid_file(&self) -> &Path;

    /// How long to go on with everything after a stop was asked for.
    fn drain_delay(&self) -> Duration {
        Duration::ZERO
    }
}

/// Where the settings of this process come from.
#[derive(Clone)]
pub(crate) struct Recipe {
    flags: CommonFlags,
    overrides: Vec<Override>,
    environment: Vec<(OsString, OsString)>,
}

/// Settings that have been checked.
pub(crate) struct Made<C> {
    pub(crate) settings: C,
    pub(crate) values: Values,
    /// What of a file of lmstfy or of the environment is not used, and why.
    pub(crate) remarks: Vec<String>,
}

impl Recipe {
    /// `own` are the settings that the daemon's own flags give.
    pub(crate) fn new(flags: CommonFlags, own: Vec<Override>) -> Self {
        let mut overrides = flags.overrides();
        overrides.extend(own);
        Self {
            flags,
            overrides,
            environment: process_environment(),
        }
    }

    /// Reads the files, and makes the settings. May block.
    pub(crate) fn make<C: Settings>(&self) -> Result<Made<C>, String> {
        let translated = self.translated::<C>()?;
        let name = self.lmstfy_name();
        let schema = schema::<C>().map_err(|error| error.to_string())?;
        let sources = Sources {
            defaults: C::DEFAULTS,
            schema: &schema,
            foreign: translated.as_ref().map(|translated| Foreign {
                name: &name,
                values: &translated.values,
            }),
            file: self.flags.config.as_deref(),
            env_prefix: ENV_PREFIX,
            foreign_tables: C::FOREIGN_TABLES,
            foreign_keys: C::FOREIGN_KEYS,
            environment: &self.environment,
            flags: &self.overrides,
        };
        let loaded: Loaded<C> = load(&sources).map_err(|error| error.to_string())?;
        check(&loaded.settings).map_err(|problem| loaded.values.without_secrets(&problem))?;
        let of_file = translated.into_iter().flat_map(|file| file.remarks);
        let of_file = of_file.map(|remark| format!("{name}: {remark}"));
        let unknown = loaded.unknown_variables.iter();
        let unknown = unknown.map(|variable| {
            format!("environment: {variable} is ignored: no setting has this name")
        });
        Ok(Made {
            settings: loaded.settings,
            values: loaded.values,
            remarks: of_file.chain(unknown).collect(),
        })
    }

    fn translated<C: Settings>(&self) -> Result<Option<Translated>, String> {
        let Some(path) = &self.flags.lmstfy_config else {
            return Ok(None);
        };
        let translated = read_file(path)
            .and_then(|text| lmstfy::translate(&text))
            .map_err(|problem| format!("{}: {problem}", self.lmstfy_name()))?;
        Ok(Some(translated.only(C::FROM_LMSTFY, C::PROGRAM)))
    }

    fn lmstfy_name(&self) -> String {
        let path = self.flags.lmstfy_config.as_deref();
        format!("lmstfy file {}", path.unwrap_or(Path::new("")).display())
    }
}

/// Checks what types cannot.
pub(crate) fn check<C: Settings>(settings: &C) -> Result<(), String> {
    settings
        .check()
        .map_err(|problem| format!("configuration: {problem}"))?;
    settings.log().check().map_err(|problem| {
        let advice = match problem {
            LogError::BadLevel(_) => {
                "; write a level such as info, or rules such as info,tidegate_api=debug"
            }
            _ => "",
        };
        format!("configuration: {problem}{advice}")
    })
}

impl<C: Settings> Made<C> {
    /// The settings as a TOML text, with what is not used in comments.
    pub(crate) fn print(&self) -> String {
        let defaults = parse_toml(C::DEFAULTS).unwrap_or_default();
        let template = defaults
            .get("pool")
            .and_then(|pools| pools.get("default"))
            .and_then(toml::Value::as_table);
        let template = template.cloned().unwrap_or_default();
        let values = self.values.completed("pool", &template, &OF_ONE_POOL);
        let mut text = format!("# Settings of {}.\n", C::PROGRAM);
        for remark in &self.remarks {
            // A comment ends with its line.
            let _ = writeln!(text, "# {}", remark.replace(char::is_control, " "));
        }
        text + &values.print()
    }
}
