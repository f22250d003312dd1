//! Signals of a running daemon, and reloading of settings.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::config::ConfigValues;
use crate::health::Readiness;
use crate::logs::{Logs, set_access_log};
use crate::shutdown::{StopTokens, ignore_file_size_signal, stop_on_signals};
use crate::systemd;
use crate::traces::Traces;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::timeout;

use crate::launch::settings::Settings;
use crate::launch::settings_loader::{LoadedSettings, SettingsLoader, check};

const ACCESS: &str = "log.access";

/// Largest number of blocked threads of one [`FileTask`].
const BLOCKED_MAX: usize = 4;

/// Time limit of file operations; more than a healthy disk needs.
const FILES_LIMIT: Duration = Duration::from_secs(5);

/// The stop tokens and the signal handling of a daemon.
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
pub struct DaemonContext {
    /// Tokens that are cancelled when the process must stop.
    pub stop: StopTokens,
    /// Where spans go; `None` if there is no collector.
    pub traces: Option<Traces>,
    signals: ReloadSignals,
    reloader: Reloader,
}

/// The state that the daemon shares with the code that starts and ends it.
pub(crate) struct SharedParts {
    pub(crate) logs: Arc<Logs>,
    pub(crate) traces: Option<Traces>,
}

/// Streams of SIGHUP and SIGUSR1. Signals that arrive before the first receive are kept.
pub(crate) struct ReloadSignals {
    hang_up: Signal,
    user: Signal,
}

impl ReloadSignals {
    /// Installs the handlers: from now on these signals, and SIGXFSZ, do not end the process. Call it inside a
    /// tokio runtime.
    pub(crate) fn new() -> io::Result<Self> {
        ignore_file_size_signal()?;
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }
}

/// Reloads the settings and reopens the log files.
struct Reloader {
    recipe: SettingsLoader,
    /// The values in effect: the values of the start, and reloaded values.
    running: ConfigValues,
    logs: Arc<Logs>,
    reading: FileTask,
    reopening: FileTask,
}

/// File operations that may block forever: on a FIFO that no process writes to, or on an unresponsive file system.
#[derive(Default)]
struct FileTask {
    /// Operations that may still be running.
    blocked: Vec<AbortHandle>,
}

impl FileTask {
    /// Runs `work` on a blocking thread, for at most [`FILES_LIMIT`]. A thread that does not return in time stays
    /// blocked; at most [`BLOCKED_MAX`] do.
    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        self.blocked.retain(|task| !task.is_finished());
        if self.blocked.len() == BLOCKED_MAX {
            return Err(format!(
                "{BLOCKED_MAX} earlier reads of the files are still blocked"
            ));
        }
        let task = spawn_blocking(work);
        self.blocked.push(task.abort_handle());
        match timeout(FILES_LIMIT, task).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the files were not read within {FILES_LIMIT:?}")),
        }
    }
}

impl DaemonContext {
    /// Also installs the handlers of SIGTERM and SIGINT, which then request a stop. Call it inside a tokio
    /// runtime.
    pub(crate) fn new<C: Settings>(
        recipe: SettingsLoader,
        made: &LoadedSettings<C>,
        shared: SharedParts,
        signals: ReloadSignals,
    ) -> io::Result<Self> {
        Ok(Self {
            stop: stop_on_signals(made.settings.drain_delay())?,
            traces: shared.traces,
            signals,
            reloader: Reloader::new(recipe, made, shared.logs),
        })
    }

    /// Not ready until [`Readiness::mark_started`] gives it checks, nor once a stop is requested.
    #[must_use]
    pub fn not_ready_until_started(&self) -> Readiness {
        Readiness::starting("waiting for redis", self.stop.requested.clone())
    }

    /// Notifies the service manager that the daemon is ready, and handles SIGHUP and SIGUSR1 from now on. `apply`
    /// is called with reloaded settings, to apply the settings that a running daemon can change.
    pub fn mark_started<C: Settings>(self, apply: impl FnMut(&C) + Send + 'static) {
        systemd::ready();
        tokio::spawn(systemd::keep_alive());
        tokio::spawn(self.handle_signals(apply));
    }

    async fn handle_signals<C: Settings>(mut self, mut apply: impl FnMut(&C) + Send) {
        loop {
            tokio::select! {
                _ = self.signals.hang_up.recv() => {
                    systemd::reloading();
                    self.reloader.reopen_logs("SIGHUP").await;
                    self.reloader.reload(&mut apply).await;
                    systemd::ready();
                }
                _ = self.signals.user.recv() => self.reloader.reopen_logs("SIGUSR1").await,
            }
        }
    }
}

impl Reloader {
    fn new<C: Settings>(recipe: SettingsLoader, made: &LoadedSettings<C>, logs: Arc<Logs>) -> Self {
        Self {
            recipe,
            running: made.values.clone(),
            logs,
            reading: FileTask::default(),
            reopening: FileTask::default(),
        }
    }

    async fn reopen_logs(&mut self, signal: &str) {
        let logs = Arc::clone(&self.logs);
        let reopened = match self.reopening.run(move || Ok(logs.reopen())).await {
            Ok(reopened) => reopened,
            Err(error) => {
                tracing::error!(
                    "failed to reopen the log files, the open ones stay in use: {error}"
                );
                return;
            }
        };
        for error in &reopened.failed {
            let problem = format!(
                "failed to reopen a log file, the old one stays in use: {error}; correct that, then send {signal} again"
            );
            tracing::error!("{problem}");
            // Also to standard error: operators may no longer read the old file.
            self.logs.print_error(&problem);
        }
        match reopened.count {
            0 => tracing::debug!(signal, "reopened no log file"),
            count => tracing::info!(signal, count, "reopened log files"),
        }
    }

    async fn reload<C: Settings>(&mut self, apply: &mut impl FnMut(&C)) {
        let recipe = self.recipe.clone();
        let made = self.reading.run(move || recipe.load::<C>()).await;
        let taken_over = made.and_then(|made| self.apply_settings(&made, apply));
        if let Err(problem) = taken_over {
            tracing::error!(
                "failed to reload settings, the current ones stay in effect: {problem}"
            );
        }
    }

    /// Applies the reloadable keys. The merged result is checked before it takes effect, since old and new values
    /// can be valid each on their own and invalid together.
    fn apply_settings<C: Settings>(
        &mut self,
        made: &LoadedSettings<C>,
        apply: &mut impl FnMut(&C),
    ) -> Result<(), String> {
        let mixed = self.running.reloaded(&made.values, &made.schema);
        let settings: C = mixed.settings().map_err(|error| error.to_string())?;
        check(&settings)?;
        let running: C = self.running.settings().map_err(|error| error.to_string())?;
        settings.check_reload(&running)?;
        let changed = self.running.changed_keys(&mixed);
        let waiting = mixed.changed_keys(&made.values);
        self.running = mixed;
        let logs = &self.logs;
        logs.set_level(&settings.log().level)
            .map_err(|error| error.to_string())?;
        // Only if the key changed: the access log may have been switched at runtime.
        if changed.iter().any(|key| key == ACCESS) {
            set_access_log(settings.log().access == Some(true));
        }
        apply(&settings);
        let changed = match changed.join(", ") {
            none if none.is_empty() => "nothing".to_owned(),
            names => names,
        };
        tracing::info!(changed, "reloaded settings");
        if !waiting.is_empty() {
            tracing::warn!("not applied, needs a restart: {}", waiting.join(", "));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use crate::logs::{self, LogConfig};
    use crate::traces::TracesConfig;
    use clap::Parser;
    use serde::Deserialize;

    use super::*;
    use crate::launch::CommonFlags;

    /// Settings in which a public port requires a password.
    #[derive(Clone, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct GuardedSettings {
        is_public: bool,
        password: String,
        log: LogConfig,
        traces: TracesConfig,
        pid_file: PathBuf,
        #[expect(dead_code, reason = "every daemon has pools")]
        pool: toml::Table,
    }

    impl Settings for GuardedSettings {
        const PROGRAM: &'static str = "guarded";
        const DEFAULTS: &'static str = "is_public = false\npassword = \"\"  # reload\npid_file = \"\"\n\
            [log]\nlevel = \"info\"\nformat = \"text\"\ndirectory = \"\"\n[traces]\nendpoint = \"\"\nsample_one_in = 0\n[pool.default]\n";
        const SIBLING: &'static str = "";
        const FROM_LMSTFY: &'static [&'static str] = &[];

        fn check(&self) -> Result<(), String> {
            match self.is_public && self.password.is_empty() {
                true => Err("is_public needs a password".to_owned()),
                false => Ok(()),
            }
        }

        fn log(&self) -> &LogConfig {
            &self.log
        }

        fn traces(&self) -> &TracesConfig {
            &self.traces
        }

        fn pid_file(&self) -> &Path {
            &self.pid_file
        }
    }

    #[derive(Parser)]
    struct TestFlags {
        #[command(flatten)]
        common: CommonFlags,
    }

    /// The old and the new values are each valid; merged, they would open the port without a password.
    #[test]
    fn an_invalid_merge_is_not_applied() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        write("is_public = true\npassword = \"hunter2\"\n");
        let flags = TestFlags::parse_from(["x", "--config", file.path().to_str().unwrap()]);
        let recipe = SettingsLoader::new(flags.common, []);
        let made: LoadedSettings<GuardedSettings> = recipe.load().ok().unwrap();
        let logs = Arc::new(logs::init(&made.settings.log).unwrap());
        let mut reloader = Reloader::new(recipe.clone(), &made, logs);
        let mut applied = Vec::new();
        let mut apply = |settings: &GuardedSettings| applied.push(settings.password.clone());
        write("is_public = false\n");
        let without: LoadedSettings<GuardedSettings> = recipe.load().ok().unwrap();
        let refused = reloader.apply_settings(&without, &mut apply).unwrap_err();
        assert!(refused.contains("is_public needs a password"), "{refused}");
        write("is_public = false\npassword = \"hunter3\"\n");
        let other: LoadedSettings<GuardedSettings> = recipe.load().ok().unwrap();
        reloader.apply_settings(&other, &mut apply).unwrap();
        assert_eq!(applied, ["hunter3"]);
        // Keys that need a restart are unchanged.
        assert!(
            reloader
                .running
                .settings::<GuardedSettings>()
                .unwrap()
                .is_public
        );
    }
}
