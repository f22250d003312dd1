//! Logs: one line per event, as text or JSON, to standard error or to files.
//!
//! ```text
//!  target "access" ── if access_log() ───────────► access.log ─┐ or, without a directory,
//!  everything else ── if the level lets it pass ─► error.log  ─┘ standard error for both
//! ```
//!
//! Each output has a bounded queue and a thread that writes it. A full or unresponsive disk, or a reader of standard
//! error that has stopped, costs log lines but never delays a request. Lost lines are counted, and reported in the log
//! itself, at any level, once writing works again. Panics go through the same queue. [`Logs::reopen`] reopens files
//! after a rotation.

mod context;
mod escape;
mod output;
mod panics;
mod queue;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt, ParseError, dynamic_filter_fn, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use context::WithContext;
pub use context::{LogContext, with_context};
use output::{LogOutput, REPORT};
pub(crate) use queue::lines_lost;

/// Longest wait at exit for lines that are not written yet.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Libraries whose more detailed events than these have passwords.
const LEVELS_WITHOUT_SECRETS: [(&str, Level); 2] =
    [("async_nats", Level::INFO), ("hyper_util", Level::DEBUG)];

/// Target of events about actions of operators. They are written at any level.
const AUDIT: &str = "audit";

/// Target of access log events, one per request.
pub const ACCESS: &str = "access";

static ACCESS_LOG: AtomicBool = AtomicBool::new(false);

/// Whether events of target `access` are written. Cheap: check it before you build such an event.
#[must_use]
pub fn access_log() -> bool {
    ACCESS_LOG.load(Ordering::Relaxed)
}

/// Switches the access log on or off.
pub fn set_access_log(is_on: bool) {
    ACCESS_LOG.store(is_on, Ordering::Relaxed);
}

/// Settings of the log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,tidegate_api=debug`.
    pub level: String,
    /// The format of a line.
    pub format: LogFormat,
    /// Directory of `access.log` and `error.log`. Empty: standard error.
    pub directory: PathBuf,
    /// Whether each request is logged. Daemons without an API do not have this key.
    #[serde(default)]
    pub access: Option<bool>,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum LogFormat {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

impl TryFrom<String> for LogFormat {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.as_str() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("must be \"text\" or \"json\", not {name:?}")),
        }
    }
}

/// Logging cannot be set up or reconfigured.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A part of `log.level` is neither a level nor a rule.
    #[error(
        "log.level: {0:?} is no level; use error, warn, info, debug or trace, or rules such as info,tidegate_api=debug"
    )]
    UnknownLevel(String),
    /// A rule in `log.level` cannot be parsed.
    #[error("log.level: {0}")]
    InvalidRule(#[from] ParseError),
    /// Logging was already set up.
    #[error("failed to set up logging: {0}")]
    AlreadyInitialized(#[from] TryInitError),
    /// A log file cannot be opened.
    #[error("log.directory: cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl LogConfig {
    /// Checks `log.level`.
    ///
    /// # Errors
    /// `log.level` is not valid.
    pub fn check(&self) -> Result<(), LogError> {
        level_filter(&self.level).map(drop)
    }
}

/// The logs of this process. Dropping this closes them.
#[expect(missing_debug_implementations, reason = "there is nothing to show")]
pub struct Logs {
    level: reload::Handle<EnvFilter, Registry>,
    outputs: Outputs,
}

/// Result of reopening the log files.
#[derive(Debug)]
pub struct ReopenResult {
    /// Number of files that were reopened.
    pub count: usize,
    /// The errors of the others.
    pub failed: Vec<LogError>,
}

struct Outputs {
    standard_error: LogOutput,
    /// Empty without a directory.
    files: Vec<LogOutput>,
}

/// Sets up logging, and a panic hook that logs panics. Call it once per process.
///
/// # Errors
/// The level is not valid, a log file cannot be opened, or logging was already set up.
pub fn init(config: &LogConfig) -> Result<Logs, LogError> {
    let (level_filter, level) = reload::Layer::new(level_filter(&config.level)?);
    let mut outputs = Outputs {
        standard_error: LogOutput::standard_error()?,
        files: Vec::new(),
    };
    let errors = outputs.open(&config.directory, "error.log")?;
    // Without a hint the filter would check every event of every library.
    let is_other = filter_fn(|metadata| metadata.target() != ACCESS && !is_with_secrets(metadata))
        .with_max_level_hint(LevelFilter::TRACE);
    let main = line_layer(config, errors).with_filter(is_other.and(level_filter));
    let access = match config.access {
        Some(is_on) => {
            set_access_log(is_on);
            let requests = outputs.open(&config.directory, "access.log")?;
            Some(line_layer(config, requests).with_filter(access_filter()))
        }
        None => None,
    };
    tracing_subscriber::registry()
        .with(main)
        .with(access)
        .try_init()?;
    std::panic::set_hook(Box::new(panics::log));
    Ok(Logs { level, outputs })
}

/// Whether an event may have a password: of a library that logs its requests, or the URLs that it is given.
fn is_with_secrets(metadata: &Metadata<'_>) -> bool {
    let library = metadata.target().split("::").next().unwrap_or_default();
    let mut limits = LEVELS_WITHOUT_SECRETS.iter();
    limits.any(|(name, level)| *name == library && metadata.level() > level)
}

/// Writes a line to standard error for a process that is about to exit. Waits at most a second.
pub fn print_error(line: &str) {
    if let Ok(output) = LogOutput::standard_error() {
        output.writer().write_line(line);
        output.close(Instant::now() + CLOSE_LIMIT);
    }
}

impl Logs {
    /// Changes the log level.
    ///
    /// # Errors
    /// `level` is not valid. Nothing has changed.
    pub fn set_level(&self, level: &str) -> Result<(), LogError> {
        // Fails only if the subscriber is gone.
        let _ = self.level.reload(level_filter(level)?);
        Ok(())
    }

    /// Reopens the log files after a rotation: renamed files are closed, and new ones created. If reopening a file
    /// fails, the open one stays in use.
    #[must_use]
    pub fn reopen(&self) -> ReopenResult {
        let (mut count, mut failed) = (0, Vec::new());
        for file in &self.outputs.files {
            match file.reopen() {
                Ok(()) => count += 1,
                Err(error) => failed.push(error),
            }
        }
        ReopenResult { count, failed }
    }

    /// Writes a line to standard error. For problems with the log files.
    pub fn print_error(&self, line: &str) {
        self.outputs.standard_error.writer().write_line(line);
    }

    /// Writes the queued lines, for at most a second in all. Later lines are lost.
    pub fn close(&self) {
        let deadline = Instant::now() + CLOSE_LIMIT;
        for file in &self.outputs.files {
            file.close(deadline);
        }
        // Last, since the files report their failures there.
        self.outputs.standard_error.close(deadline);
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.close();
    }
}

impl Outputs {
    /// Opens the file of this name, or returns standard error if there is no directory.
    fn open(&mut self, directory: &Path, name: &str) -> Result<BoxMakeWriter, LogError> {
        let errors = self.standard_error.writer();
        if directory.as_os_str().is_empty() {
            return Ok(BoxMakeWriter::new(errors));
        }
        let file = LogOutput::file(directory.join(name), errors)?;
        let writer = file.writer();
        self.files.push(file);
        Ok(BoxMakeWriter::new(writer))
    }
}

/// Passes access log events while [`access_log`] is on. The level hint and the callsite filter exclude all other events
/// up front, at no cost per event.
fn access_filter<S>() -> impl tracing_subscriber::layer::Filter<S> {
    dynamic_filter_fn(|metadata, _| metadata.target() == ACCESS && access_log())
        .with_max_level_hint(LevelFilter::INFO)
        .with_callsite_filter(|metadata| match metadata.target() {
            ACCESS => Interest::sometimes(),
            _ => Interest::never(),
        })
}

/// Builds the filter. It always passes reports of lost lines, and events of target `audit` unless a rule names it. A
/// single word that is not a level is rejected: `EnvFilter` would take it for a target to log at level `trace`.
fn level_filter(level: &str) -> Result<EnvFilter, LogError> {
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let is_known = |word: &&str| word.contains(['=', '[']) || is_level(word);
    let words = level.split(',').map(str::trim);
    if let Some(word) = words.into_iter().find(|word| !is_known(word)) {
        return Err(LogError::UnknownLevel(word.to_owned()));
    }
    let mut filter = EnvFilter::try_new(level)?;
    if !level.split(',').any(names_audit) {
        filter = filter.add_directive(format!("{AUDIT}=info").parse()?);
    }
    Ok(filter.add_directive(format!("{REPORT}=warn").parse()?))
}

/// Whether a part of `log.level` is a rule for the target `audit`.
fn names_audit(rule: &str) -> bool {
    let target = rule.split(['=', '[']).next().unwrap_or_default();
    target.trim() == AUDIT
}

fn line_layer<S>(config: &LogConfig, output: BoxMakeWriter) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    // Colors only on a terminal.
    let is_terminal = config.directory.as_os_str().is_empty()
        && std::io::IsTerminal::is_terminal(&std::io::stderr());
    formatted(config.format == LogFormat::Json, is_terminal, output)
}

/// Lines in a format; with colors if `has_colors` and they are text.
fn formatted<S, W>(is_json: bool, has_colors: bool, output: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(output).with_ansi(has_colors);
    match is_json {
        false => {
            let format = fmt::format().with_ansi(has_colors);
            lines
                .event_format(WithContext {
                    format,
                    is_json,
                    has_colors,
                })
                .boxed()
        }
        true => {
            let format = fmt::format().json().flatten_event(true);
            let lines = lines.fmt_fields(fmt::format::JsonFields::new());
            lines
                .event_format(WithContext {
                    format,
                    is_json,
                    has_colors: false,
                })
                .boxed()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_named() {
        for level in [
            "info",
            "WARN",
            "off",
            "info,tidegate_api=debug",
            "a::b=trace",
            "3",
        ] {
            assert!(level_filter(level).is_ok(), "{level}");
        }
        for (level, word) in [("verbose", "verbose"), ("", ""), ("info,chatty", "chatty")] {
            match level_filter(level) {
                Err(LogError::UnknownLevel(found)) => assert_eq!(found, word),
                other => panic!("{level}: {:?}", other.map(|_| ())),
            }
        }
        assert!(level_filter("tidegate_api=loud").is_err());
    }

    #[test]
    fn audit_events_are_written_at_any_level_unless_a_rule_names_them() {
        for (level, is_written) in [
            ("info", true),
            ("warn", true),
            ("error,tidegate_api=debug", true),
            ("off", true),
            ("warn,auditor=off", true),
            ("info,audit=off", false),
            ("warn,audit=error", false),
        ] {
            let filter = level_filter(level).unwrap();
            let subscriber = tracing_subscriber::registry().with(filter);
            let is_enabled = tracing::subscriber::with_default(
                subscriber,
                || tracing::enabled!(target: AUDIT, Level::INFO),
            );
            assert_eq!(is_enabled, is_written, "{level}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let missing = Path::new("/missing");
        let mut outputs = Outputs {
            standard_error: LogOutput::standard_error().unwrap(),
            files: Vec::new(),
        };
        let opened = outputs.open(missing, "error.log");
        let message = opened.err().unwrap().to_string();
        for part in ["log.directory: cannot write", "missing/error.log"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
