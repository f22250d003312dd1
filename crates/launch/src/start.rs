//! From `main` to the exit status.

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
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

/// What is in `log.directory`.
const LOG_FILES: [&str; 2] = ["access.log", "error.log"];

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
    let _pid_file = write_pid_file(&made.settings)?;
    runtime.block_on(async {
        let process = Process::new(recipe, &made, Arc::clone(logs), signals)
            .map_err(|error| format!("signals: {error}"))?;
        let running = run(made.settings, process);
        running.await.map_err(|error| error.to_string())
    })
}

/// Writes the pid file, if there is to be one. To be called when the log files are open.
fn write_pid_file<C: Settings>(settings: &C) -> Result<Option<PidFile>, String> {
    let path = settings.pid_file();
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let directory = &settings.log().directory;
    let has_log_files = !directory.as_os_str().is_empty();
    // A log file that is still empty would be taken for a pid file, and removed at the end.
    if has_log_files
        && LOG_FILES
            .iter()
            .any(|name| is_same(path, &directory.join(name)))
    {
        return Err(format!(
            "pid_file: {} is a log file of this process: give another path",
            path.display()
        ));
    }
    let written = PidFile::write(path).map(Some);
    written.map_err(|error| error.to_string())
}

/// Whether two paths lead to the same file, which exists.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}
