//! The trait for the settings of a daemon.

use std::path::Path;
use std::time::Duration;

use crate::logs::LogConfig;
use crate::traces::TracesConfig;
use serde::de::DeserializeOwned;

/// The settings of a daemon.
pub trait Settings: DeserializeOwned + Clone + Send + Sync + 'static {
    /// The name of the program.
    const PROGRAM: &'static str;
    /// The defaults file, with a row for every key: see [`crate::config::Schema::new`].
    const DEFAULTS: &'static str;
    /// The defaults file of the other daemon. Environment variables for keys that only the other daemon has are
    /// ignored. Both daemons may share an environment.
    const SIBLING: &'static str;
    /// The keys and tables that this daemon takes from an lmstfy file.
    const FROM_LMSTFY: &'static [&'static str];

    /// Checks dependencies between settings, which types and bounds cannot express. The default
    /// accepts everything.
    ///
    /// # Errors
    /// A setting is invalid. The message names it and gives its rule.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Checks settings that replace the settings of the running process. The default accepts everything.
    ///
    /// # Errors
    /// The change needs a restart. The message names the setting.
    fn check_reload(&self, running: &Self) -> Result<(), String> {
        let _ = running;
        Ok(())
    }

    /// The settings of the log.
    fn log(&self) -> &LogConfig;

    /// The settings of traces.
    fn traces(&self) -> &TracesConfig;

    /// Path of the pid file; empty = none.
    fn pid_file(&self) -> &Path;

    /// How long to continue serving after a stop is requested, so that load balancers notice.
    fn drain_delay(&self) -> Duration {
        Duration::ZERO
    }
}
