//! Settings in layers: a later layer wins over an earlier one, key by key.
//!
//! ```text
//!  defaults (built in) ─► file (--config) ─► environment (PREFIX_…) ─► flags
//! ```
//!
//! Each layer is checked as soon as it is laid, so a mistake is reported with the layer it is in.
//! Unknown keys are refused by the settings' own `deny_unknown_fields`.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ::config::builder::DefaultState;
use ::config::{Config, ConfigBuilder, Environment, File, FileFormat};
use serde::de::DeserializeOwned;

/// Between the parts of a key in the name of an environment variable: `PREFIX_LOG__LEVEL` is
/// `log.level`.
const SEPARATOR: &str = "__";

/// Where settings come from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Built-in defaults, a TOML text that has every key.
    pub defaults: &'a str,
    /// A TOML file with the keys that differ. It must exist if given.
    pub file: Option<&'a Path>,
    /// What the names of environment variables begin with, without the `_` that follows.
    pub env_prefix: &'a str,
    /// The environment; see [`process_environment`].
    pub environment: &'a [(String, String)],
    /// Keys with dots between their parts, and the values that flags give them.
    pub flags: &'a [(&'a str, String)],
}

/// One of the places where settings come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    /// The built-in defaults.
    Defaults,
    /// A file.
    File(PathBuf),
    /// The process environment.
    Environment,
    /// The command line.
    Flags,
}

impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaults => out.write_str("built-in defaults"),
            Self::File(path) => write!(out, "config file {}", path.display()),
            Self::Environment => out.write_str("environment"),
            Self::Flags => out.write_str("command line"),
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

/// Reads settings from all sources.
///
/// A variable without `__` counts only if the defaults have a key of its name: orchestrators put
/// variables such as `TIDEGATE_PORT` into every process. See [`ignored_variables`].
///
/// # Errors
/// A file that cannot be read, a key that nobody knows, a value of the wrong type.
pub fn load<T: DeserializeOwned>(sources: &Sources<'_>) -> Result<T, ConfigError> {
    let defaults = File::from_str(sources.defaults, FileFormat::Toml);
    let builder = Config::builder().add_source(defaults);
    let mut settings: T = check(&builder, Layer::Defaults)?;
    let mut builder = builder;
    if let Some(path) = sources.file {
        let layer = Layer::File(path.to_owned());
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return Err(wrong(layer, &error)),
        };
        builder = builder.add_source(File::from_str(&text, FileFormat::Toml));
        settings = check(&builder, layer)?;
    }
    let (counted, _) = split_environment(sources);
    if !counted.is_empty() {
        builder = builder.add_source(environment(sources.env_prefix, counted));
        settings = check(&builder, Layer::Environment)?;
    }
    if !sources.flags.is_empty() {
        for (key, value) in sources.flags {
            builder = builder
                .set_override(key, value.as_str())
                .map_err(|error| wrong(Layer::Flags, &error))?;
        }
        settings = check(&builder, Layer::Flags)?;
    }
    Ok(settings)
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

fn check<T: DeserializeOwned>(
    builder: &ConfigBuilder<DefaultState>,
    layer: Layer,
) -> Result<T, ConfigError> {
    builder
        .build_cloned()
        .and_then(Config::try_deserialize)
        .map_err(|error| wrong(layer, &error))
}

fn wrong(layer: Layer, error: &dyn std::error::Error) -> ConfigError {
    let problem = error.to_string();
    ConfigError { layer, problem }
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
        if key.contains(SEPARATOR) || has_top_level_key(sources.defaults, &key) {
            counted.insert(name.clone(), value.clone());
        } else {
            ignored.push(name.clone());
        }
    }
    (counted, ignored)
}

fn has_top_level_key(defaults: &str, key: &str) -> bool {
    Config::builder()
        .add_source(File::from_str(defaults, FileFormat::Toml))
        .build()
        .and_then(Config::try_deserialize::<HashMap<String, ::config::Value>>)
        .is_ok_and(|keys| keys.contains_key(key))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use serde::Deserialize;

    use super::*;

    const DEFAULTS: &str = "name = \"a\"\nwait = \"1s\"\n[log]\nlevel = \"info\"\nlines = 5\n";

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        name: String,
        #[serde(with = "humantime_serde")]
        wait: Duration,
        log: Log,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Log {
        level: String,
        lines: u32,
    }

    struct Given {
        file: Option<tempfile::NamedTempFile>,
        environment: Vec<(String, String)>,
        flags: Vec<(&'static str, String)>,
    }

    impl Given {
        fn nothing() -> Self {
            Self {
                file: None,
                environment: vec![],
                flags: vec![],
            }
        }

        fn file(mut self, text: &str) -> Self {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            self.file = Some(file);
            self
        }

        fn variable(mut self, name: &str, value: &str) -> Self {
            self.environment.push((name.to_owned(), value.to_owned()));
            self
        }

        fn flag(mut self, key: &'static str, value: &str) -> Self {
            self.flags.push((key, value.to_owned()));
            self
        }

        fn sources(&self) -> Sources<'_> {
            Sources {
                defaults: DEFAULTS,
                file: self.file.as_ref().map(tempfile::NamedTempFile::path),
                env_prefix: "TIDEGATE",
                environment: &self.environment,
                flags: &self.flags,
            }
        }

        fn load(&self) -> Result<Settings, ConfigError> {
            load(&self.sources())
        }

        #[track_caller]
        fn refused(&self) -> (Layer, String) {
            let error = self.load().unwrap_err();
            (error.layer.clone(), error.to_string())
        }
    }

    #[test]
    fn later_layers_win_key_by_key() {
        let given = Given::nothing();
        assert_eq!(given.load().unwrap().wait, Duration::from_secs(1));
        let given = given.file("name = \"file\"\nwait = \"2m\"\n[log]\nlevel = \"warn\"\n");
        let settings = given.load().unwrap();
        assert_eq!(settings.wait, Duration::from_secs(120));
        assert_eq!(
            (settings.log.level.as_str(), settings.log.lines),
            ("warn", 5)
        );
        let given = given
            .variable("TIDEGATE_NAME", "env")
            .variable("TIDEGATE_LOG__LINES", "7");
        let settings = given.load().unwrap();
        assert_eq!((settings.name.as_str(), settings.log.lines), ("env", 7));
        let given = given.flag("name", "flag").flag("log.lines", "9");
        let settings = given.load().unwrap();
        assert_eq!((settings.name.as_str(), settings.log.lines), ("flag", 9));
    }

    #[test]
    fn unknown_keys_are_named_with_the_place_they_are_in() {
        let given = Given::nothing().file("nmae = \"x\"\n");
        let path = given.sources().file.unwrap().to_owned();
        let (layer, text) = given.refused();
        assert_eq!(layer, Layer::File(path.clone()));
        assert!(
            text.contains("nmae") && text.contains(path.to_str().unwrap()),
            "{text}"
        );
        let (layer, text) = Given::nothing().file("[log]\nlevle = \"x\"\n").refused();
        assert!(matches!(layer, Layer::File(_)));
        assert!(text.contains("levle") && text.contains("log"), "{text}");
        let (layer, text) = Given::nothing()
            .variable("TIDEGATE_LOG__LEVLE", "x")
            .refused();
        assert_eq!(layer, Layer::Environment);
        assert!(text.contains("levle"), "{text}");
        let (layer, _) = Given::nothing().flag("nmae", "x").refused();
        assert_eq!(layer, Layer::Flags);
    }

    #[test]
    fn wrong_types_say_key_and_expectation() {
        let (_, text) = Given::nothing().file("[log]\nlines = \"many\"\n").refused();
        assert!(
            text.contains("log.lines") && text.contains("integer"),
            "{text}"
        );
        let (_, text) = Given::nothing().file("wait = \"soon\"\n").refused();
        assert!(text.contains("wait"), "{text}");
        let (_, text) = Given::nothing()
            .variable("TIDEGATE_LOG__LINES", "-1")
            .refused();
        assert!(text.contains("log.lines"), "{text}");
    }

    #[test]
    fn a_file_that_was_asked_for_must_be_there_and_be_toml() {
        let mut given = Given::nothing();
        let missing = Path::new("/nonexistent/tidegate.toml");
        let sources = Sources {
            file: Some(missing),
            ..given.sources()
        };
        let error = load::<Settings>(&sources).unwrap_err();
        assert!(
            error.to_string().contains("/nonexistent/tidegate.toml"),
            "{error}"
        );
        given = Given::nothing().file("name = \n");
        assert!(matches!(given.refused().0, Layer::File(_)));
    }

    #[test]
    fn variables_of_orchestrators_are_not_settings() {
        let given = Given::nothing()
            .variable("TIDEGATE_API_SERVICE_HOST", "10.0.0.1")
            .variable("TIDEGATE_NAME", "env")
            .variable("NAME", "other");
        assert_eq!(given.load().unwrap().name, "env");
        assert_eq!(
            ignored_variables(&given.sources()),
            ["TIDEGATE_API_SERVICE_HOST"]
        );
    }
}
