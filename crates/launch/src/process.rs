//! The process while the daemon works: signals, and settings that are read again.

use std::io;
use std::sync::Arc;

use tidegate_service::{
    Check, Logs, Readiness, Stop, Values, logs::set_access_log, stop_on_signals, systemd,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::recipe::{Made, Recipe, Settings, check};

const ACCESS: &str = "log.access";

/// What a daemon is given by those who started it.
#[expect(missing_debug_implementations, reason = "it may hold secrets")]
pub struct Process<C> {
    /// When to end.
    pub stop: Stop,
    hang_up: Signal,
    user: Signal,
    reloader: Reloader,
    settings: std::marker::PhantomData<fn() -> C>,
}

/// Reads the settings again.
struct Reloader {
    recipe: Recipe,
    /// The values that hold now: those of the start, but for what has been taken over since.
    running: Values,
    logs: Arc<Logs>,
}

impl<C: Settings> Process<C> {
    /// From now on signals do what they should. To be called on a runtime.
    pub(crate) fn new(recipe: Recipe, made: &Made<C>, logs: Arc<Logs>) -> io::Result<Self> {
        Ok(Self {
            stop: stop_on_signals(made.settings.drain_delay())?,
            hang_up: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
            reloader: Reloader {
                recipe,
                running: made.values.clone(),
                logs,
            },
            settings: std::marker::PhantomData,
        })
    }

    /// Ready when all of these pass, until a stop was asked for.
    #[must_use]
    pub fn readiness(&self, checks: Vec<Check>) -> Readiness {
        Readiness::new(checks, self.stop.asked.clone())
    }

    /// The daemon works: the service manager is told, and signals are answered from now on. `apply` is
    /// called with settings that were read again, for what can be taken over while the daemon runs.
    pub fn started(self, apply: impl FnMut(&C) + Send + 'static) {
        systemd::ready();
        tokio::spawn(systemd::keep_alive());
        tokio::spawn(self.listen(apply));
    }

    async fn listen(mut self, mut apply: impl FnMut(&C) + Send) {
        loop {
            tokio::select! {
                _ = self.hang_up.recv() => {
                    systemd::reloading();
                    self.reloader.reopen_logs("SIGHUP").await;
                    self.reloader.reload(&mut apply).await;
                    systemd::ready();
                }
                _ = self.user.recv() => self.reloader.reopen_logs("SIGUSR1").await,
            }
        }
    }
}

impl Reloader {
    async fn reopen_logs(&self, signal: &str) {
        let logs = Arc::clone(&self.logs);
        // A disk may take its time.
        match tokio::task::spawn_blocking(move || logs.reopen()).await {
            Ok(Ok(0)) => tracing::debug!(signal, "there are no log files"),
            Ok(Ok(_)) => tracing::info!(signal, "log files are opened anew"),
            Ok(Err(error)) => tracing::error!("the log files that are open stay in use: {error}"),
            Err(_) => {}
        }
    }

    async fn reload<C: Settings>(&mut self, apply: &mut impl FnMut(&C)) {
        let recipe = self.recipe.clone();
        let Ok(made) = tokio::task::spawn_blocking(move || recipe.make::<C>()).await else {
            return;
        };
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
