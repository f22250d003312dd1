//! Start and end of a daemon.

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::logs::{self, LogConfig};
use crate::own_runtime::new_runtime;
use crate::pid_file::PidFile;
use crate::traces::Traces;
use tokio::runtime::Runtime;

use crate::launch::flags::{Flag, LaunchFlags};
use crate::launch::process::{DaemonContext, ReloadSignals, SharedParts};
use crate::launch::settings::Settings;
use crate::launch::settings_loader::{LoadedSettings, SettingsLoader};

/// Longest time that blocked tasks may delay the exit of the process.
const BLOCKED_LIMIT: Duration = Duration::from_millis(500);

/// Runs a daemon: loads its settings, sets up the runtime, signals, logs and pid file, then calls `run`.
/// `own` has the daemon's own flags.
///
/// An error is printed to standard error, and logged once the log files are open.
pub fn launch<C: Settings, E: Display>(
    flags: impl Into<LaunchFlags>,
    own: impl IntoIterator<Item = Flag>,
    run: impl AsyncFnOnce(C, DaemonContext) -> Result<(), E>,
) -> ExitCode {
    match start(flags.into(), own, run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // Also to standard error: someone who starts the daemon by hand should not have to read log
            // files.
            logs::print_error(&format!("{}: {problem}", C::PROGRAM));
            ExitCode::FAILURE
        }
    }
}

/// Runs a one-off command with the settings of a daemon, which may be running meanwhile. The command has no
/// pid file and no signal handlers, and logs to standard error.
///
/// # Errors
/// The settings are invalid, or the command fails.
pub fn run_once<C: Settings, T>(
    flags: impl Into<LaunchFlags>,
    run: impl AsyncFnOnce(C) -> Result<T, String>,
) -> Result<T, String> {
    let made: LoadedSettings<C> = SettingsLoader::new(flags, []).load()?;
    let log = LogConfig {
        directory: PathBuf::new(),
        ..made.settings.log().clone()
    };
    let _logs = logs::init(&log).map_err(|error| error.to_string())?;
    let runtime = start_runtime()?;
    runtime.block_on(run(made.settings))
}

fn start_runtime() -> Result<Runtime, String> {
    new_runtime("main").map_err(|error| format!("failed to start the runtime: {error}"))
}

fn start<C: Settings, E: Display>(
    flags: LaunchFlags,
    own: impl IntoIterator<Item = Flag>,
    run: impl AsyncFnOnce(C, DaemonContext) -> Result<(), E>,
) -> Result<(), String> {
    let is_print = flags.print_config;
    let recipe = SettingsLoader::new(flags, own);
    if is_print {
        let made: LoadedSettings<C> = recipe.load()?;
        let printed = std::io::stdout().write_all(made.print().as_bytes());
        return printed.map_err(|error| format!("failed to print the settings: {error}"));
    }
    let runtime = start_runtime()?;
    // Before anything that may take time: without handlers these signals end the process.
    let signals = {
        let _inside = runtime.enter();
        ReloadSignals::new()
            .map_err(|error| format!("failed to install signal handlers: {error}"))?
    };
    let made: LoadedSettings<C> = recipe.load()?;
    let logs = Arc::new(logs::init(made.settings.log()).map_err(|error| error.to_string())?);
    let has_files = !made.settings.log().directory.as_os_str().is_empty();
    let traces = Traces::start(made.settings.traces(), C::PROGRAM);
    let result = match traces {
        Ok(traces) => {
            let shared = SharedParts {
                logs: Arc::clone(&logs),
                traces: traces.clone(),
            };
            let result = run_daemon(&runtime, signals, recipe, made, shared, run);
            if let Some(traces) = traces {
                traces.close();
            }
            result
        }
        Err(error) => Err(error.to_string()),
    };
    if let Err(problem) = &result
        && has_files
    {
        tracing::error!("{problem}");
    }
    runtime.shutdown_timeout(BLOCKED_LIMIT);
    // Explicitly, since a task that did not end may still hold a reference.
    logs.close();
    result
}

fn run_daemon<C: Settings, E: Display>(
    runtime: &Runtime,
    signals: ReloadSignals,
    recipe: SettingsLoader,
    made: LoadedSettings<C>,
    shared: SharedParts,
    run: impl AsyncFnOnce(C, DaemonContext) -> Result<(), E>,
) -> Result<(), String> {
    for remark in &made.remarks {
        tracing::warn!("{remark}");
    }
    let _pid_file = write_pid_file(&made.settings)?;
    runtime.block_on(async {
        let process = DaemonContext::new(recipe, &made, shared, signals)
            .map_err(|error| format!("failed to install signal handlers: {error}"))?;
        let running = run(made.settings, process);
        running.await.map_err(|error| error.to_string())
    })
}

/// Writes the pid file, if it is configured.
fn write_pid_file<C: Settings>(settings: &C) -> Result<Option<PidFile>, String> {
    let path = settings.pid_file();
    let path = (!path.as_os_str().is_empty()).then_some(path);
    let written = path.map(PidFile::write).transpose();
    written.map_err(|error| error.to_string())
}
