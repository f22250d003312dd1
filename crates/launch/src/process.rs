//! The process while the daemon works: signals, and settings that are read again.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_service::{
    Check, Logs, Readiness, Stop, Values, ignore_file_size_signal, logs::set_access_log,
    stop_on_signals, systemd,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::timeout;

use crate::recipe::{Made, Recipe, Settings, check};

const ACCESS: &str = "log.access";

/// Threads that wait for files.
const BLOCKED_MAX: usize = 4;

/// More than files on a working disk need.
const FILES_LIMIT: Duration = Duration::from_secs(5);

/// What a daemon is given by those who started it.
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
pub struct Process {
    /// When to end.
    pub stop: Stop,
    signals: ReloadSignals,
    reloader: Reloader,
}

/// SIGHUP and SIGUSR1. Those that arrive before they are asked for are kept.
pub(crate) struct ReloadSignals {
    hang_up: Signal,
    user: Signal,
}

impl ReloadSignals {
    /// From now on these signals do not end the process, and neither does SIGXFSZ. To be called inside a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        ignore_file_size_signal()?;
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }
}

/// Reads the settings again.
struct Reloader {
    recipe: Recipe,
    /// The values that hold now: those of the start, but for what has been taken over since.
    running: Values,
    logs: Arc<Logs>,
    reading: FileTask,
    reopening: FileTask,
}

/// Work on files that may not end: a FIFO that no process writes, a file system that does not answer.
#[derive(Default)]
struct FileTask {
    /// Those that had not ended when a later one began.
    blocked: Vec<AbortHandle>,
}

impl FileTask {
    /// Does some work, and waits for that for at most [`FILES_LIMIT`]. The thread of work that has not ended
    /// stays blocked, so there are not more than [`BLOCKED_MAX`].
    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        self.blocked.retain(|task| !task.is_finished());
        if self.blocked.len() == BLOCKED_MAX {
            return Err("the files could not be read since several signals".to_owned());
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

impl Process {
    /// From now on SIGTERM and SIGINT request a stop. To be called on a runtime.
    pub(crate) fn new<C: Settings>(
        recipe: Recipe,
        made: &Made<C>,
        logs: Arc<Logs>,
        signals: ReloadSignals,
    ) -> io::Result<Self> {
        Ok(Self {
            stop: stop_on_signals(made.settings.drain_delay())?,
            signals,
            reloader: Reloader::new(recipe, made, logs),
        })
    }

    /// Ready when all of these pass, until a stop was asked for.
    #[must_use]
    pub fn readiness(&self, checks: Vec<Check>) -> Readiness {
        Readiness::new(checks, self.stop.asked.clone())
    }

    /// Not ready until it is given checks, and then as [`Self::readiness`] says: for a port that answers while the
    /// daemon connects to Redis.
    #[must_use]
    pub fn starting(&self) -> Readiness {
        Readiness::starting("waiting for redis", self.stop.asked.clone())
    }

    /// The daemon works: the service manager is told, and signals are answered from now on. `apply` is
    /// called with settings that were read again, for what can be taken over while the daemon runs.
    pub fn started<C: Settings>(self, apply: impl FnMut(&C) + Send + 'static) {
        systemd::ready();
        tokio::spawn(systemd::keep_alive());
        tokio::spawn(self.listen(apply));
    }

    async fn listen<C: Settings>(mut self, mut apply: impl FnMut(&C) + Send) {
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
    fn new<C: Settings>(recipe: Recipe, made: &Made<C>, logs: Arc<Logs>) -> Self {
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
                tracing::error!("the log files that are open stay in use: {error}");
                return;
            }
        };
        for error in &reopened.failed {
            let problem = format!(
                "failed to reopen a log file, the old one stays in use: {error}; correct that, then send {signal} again"
            );
            tracing::error!("{problem}");
            // The old file may not be looked at any more.
            self.logs.print_error(&problem);
        }
        match reopened.count {
            0 => tracing::debug!(signal, "no log file is reopened"),
            count => tracing::info!(signal, count, "log files are reopened"),
        }
    }

    async fn reload<C: Settings>(&mut self, apply: &mut impl FnMut(&C)) {
        let recipe = self.recipe.clone();
        let made = self.reading.run(move || recipe.make::<C>()).await;
        let taken_over = made.and_then(|made| self.take_over(&made, apply));
        if let Err(problem) = taken_over {
            tracing::error!("the settings stay as they are: {problem}");
        }
    }

    /// Takes over what can be. The mixture of old and new is what will hold, so it is checked as a whole.
    fn take_over<C: Settings>(
        &mut self,
        made: &Made<C>,
        apply: &mut impl FnMut(&C),
    ) -> Result<(), String> {
        let mixed = self.running.with(&made.values, C::RELOADABLE);
        let settings: C = mixed.settings().map_err(|error| error.to_string())?;
        check(&settings)?;
        let changed = self.running.changed(&mixed);
        let waiting = mixed.changed(&made.values);
        self.running = mixed;
        let logs = &self.logs;
        logs.set_level(&settings.log().level)
            .map_err(|error| error.to_string())?;
        // Only then: it may have been switched by hand since.
        if changed.iter().any(|key| key == ACCESS) {
            set_access_log(settings.log().access == Some(true));
        }
        apply(&settings);
        let changed = match changed.join(", ") {
            none if none.is_empty() => "nothing".to_owned(),
            names => names,
        };
        tracing::info!(changed, "settings are read again");
        if !waiting.is_empty() {
            tracing::warn!("needs a restart: {}", waiting.join(", "));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::Parser;
    use serde::Deserialize;
    use tidegate_service::{Bound, LogConfig, logs};

    use super::*;
    use crate::CommonFlags;

    /// A port that may be open to all only if it asks for a password.
    #[derive(Clone, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Guarded {
        is_public: bool,
        password: String,
        log: LogConfig,
        pid_file: PathBuf,
        #[expect(dead_code, reason = "every daemon has pools")]
        pool: toml::Table,
    }

    impl Settings for Guarded {
        const PROGRAM: &'static str = "guarded";
        const DEFAULTS: &'static str = "is_public = false\npassword = \"\"\npid_file = \"\"\n\
            [log]\nlevel = \"info\"\nformat = \"text\"\ndirectory = \"\"\n[pool.default]\n";
        const OPTIONAL: &'static str = "";
        const BOUNDS: &'static [(&'static str, Bound)] = &[];
        const DEPLOYMENTS: &'static [&'static str] = &[];
        const RELOADABLE: &'static [&'static str] = &["password"];
        const FOREIGN_TABLES: &'static [&'static str] = &[];
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

        fn pid_file(&self) -> &Path {
            &self.pid_file
        }
    }

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        common: CommonFlags,
    }

    /// The old half and the new half are each fine, and open the port to all together.
    #[test]
    fn a_mixture_that_is_not_allowed_is_not_taken_over() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        write("is_public = true\npassword = \"hunter2\"\n");
        let flags = Flags::parse_from(["x", "--config", file.path().to_str().unwrap()]);
        let recipe = Recipe::new(flags.common, vec![]);
        let made: Made<Guarded> = recipe.make().ok().unwrap();
        let logs = Arc::new(logs::init(&made.settings.log).unwrap());
        let mut reloader = Reloader::new(recipe.clone(), &made, logs);
        let mut applied = Vec::new();
        let mut apply = |settings: &Guarded| applied.push(settings.password.clone());
        write("is_public = false\n");
        let without: Made<Guarded> = recipe.make().ok().unwrap();
        let refused = reloader.take_over(&without, &mut apply).unwrap_err();
        assert!(refused.contains("is_public needs a password"), "{refused}");
        write("is_public = false\npassword = \"hunter3\"\n");
        let other: Made<Guarded> = recipe.make().ok().unwrap();
        reloader.take_over(&other, &mut apply).unwrap();
        assert_eq!(applied, ["hunter3"]);
        // What needs a restart is as it was.
        assert!(reloader.running.settings::<Guarded>().unwrap().is_public);
    }
}
