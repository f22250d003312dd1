//! From `main` to the exit status.

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tidegate_service::{LogConfig, Logs, PidFile, logs};
use tokio::runtime::{Builder, Runtime};

use crate::flags::{CommonFlags, Override};
use crate::process::{Process, ReloadSignals};
use crate::recipe::{Made, Recipe, Settings};

/// How long tasks that block may delay the end of the process.
const BLOCKED_LIMIT: Duration = Duration::from_millis(500);

/// Runs a daemon: makes its settings, sets up what every process has, and lets it do its work. `own` are
/// the settings that the daemon's own flags give, keys with dots between their parts.
///
/// A failure is told on standard error, and in the logs once there are some.
pub fn launch<C, F, E>(
    flags: CommonFlags,
    own: Vec<Override>,
    run: impl FnOnce(C, Process) -> F,
) -> ExitCode
where
    C: Settings,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    match start(flags, own, run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // Whoever started it by hand should not have to read the log files.
            logs::print_error(&format!("{}: {problem}", C::PROGRAM));
            ExitCode::FAILURE
        }
    }
}

/// Does one thing with the settings of a daemon, which may be at work: there is no pid file and no care for
/// signals, and logs go to standard error.
///
/// # Errors
/// The settings are wrong, or what is done fails.
pub fn at_once<C, F, T>(flags: CommonFlags, run: impl FnOnce(C) -> F) -> Result<T, String>
where
    C: Settings,
    F: Future<Output = Result<T, String>>,
{
    let made: Made<C> = Recipe::new(flags, Vec::new()).make()?;
    let log = LogConfig {
        directory: PathBuf::new(),
        ..made.settings.log().clone()
    };
    let _logs = logs::init(&log).map_err(|error| error.to_string())?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("runtime: {error}"))?;
    runtime.block_on(run(made.settings))
}

fn start<C, F, E>(
    flags: CommonFlags,
    own: Vec<Override>,
    run: impl FnOnce(C, Process) -> F,
) -> Result<(), String>
where
    C: Settings,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let is_print = flags.print_config;
    let recipe = Recipe::new(flags, own);
    if is_print {
        let made: Made<C> = recipe.make()?;
        let printed = std::io::stdout().write_all(made.print().as_bytes());
        return printed.map_err(|error| format!("--print-config: {error}"));
    }
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("runtime: {error}"))?;
    // Before anything that may take time: unhandled, these signals would end the process.
    let signals = {
        let _inside = runtime.enter();
        ReloadSignals::new().map_err(|error| format!("signals: {error}"))?
    };
    let made: Made<C> = recipe.make()?;
    let logs = Arc::new(logs::init(made.settings.log()).map_err(|error| error.to_string())?);
    let has_files = !made.settings.log().directory.as_os_str().is_empty();
    let result = work(&runtime, signals, recipe, made, &logs, run);
    if let Err(problem) = &result
        && has_files
    {
        tracing::error!("{problem}");
    }
    runtime.shutdown_timeout(BLOCKED_LIMIT);
    // A task that did not end may hold the logs.
    logs.close();
    result
}

fn work<C, F, E>(
    runtime: &Runtime,
    signals: ReloadSignals,
    recipe: Recipe,
    made: Made<C>,
    logs: &Arc<Logs>,
    run: impl FnOnce(C, Process) -> F,
) -> Result<(), String>
where
    C: Settings,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    for remark in &made.remarks {
        tracing::warn!("{remark}");
    }
    let pid_file = made.settings.pid_file();
    let has_pid_file = !pid_file.as_os_str().is_empty();
    let _pid_file = has_pid_file
        .then(|| PidFile::write(pid_file))
        .transpose()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let process = Process::new(recipe, &made, Arc::clone(logs), signals)
            .map_err(|error| format!("signals: {error}"))?;
        let running = run(made.settings, process);
        running.await.map_err(|error| error.to_string())
    })
}
