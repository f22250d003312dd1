//! Logs: one line an event, as text or as JSON, to standard error or to files.
//!
//! ```text
//!  target "access" ── if access_log() ───────────► access.log ─┐ or, without a directory,
//!  everything else ── if the level lets it pass ─► error.log  ─┘ standard error for both
//! ```
//!
//! Each output has a bounded queue and a thread that writes it: a disk that is full or does not answer, and a
//! reader of standard error that has stopped, cost log lines and never a request. Lost lines are counted, and
//! reported in the log itself, at any level, once it is written again. Panics are logged in the same way. Files are opened
//! again when they were moved away; see [`Logs::reopen`].

mod escape;
mod output;
mod panics;
mod queue;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing_subscriber::filter::{FilterExt, ParseError, dynamic_filter_fn, filter_fn};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use output::{Output, REPORT};
pub(crate) use queue::lines_lost;

/// The longest wait for lines that are still to be written when the process ends.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// The target of the events that tell of one request each.
pub const ACCESS: &str = "access";

static ACCESS_LOG: AtomicBool = AtomicBool::new(false);

/// Whether events of target `access` are written. Cheap: to be asked before one is made.
#[must_use]
pub fn access_log() -> bool {
    ACCESS_LOG.load(Ordering::Relaxed)
}

/// Has events of target `access` written, or not.
pub fn set_access_log(is_on: bool) {
    ACCESS_LOG.store(is_on, Ordering::Relaxed);
}

/// How much is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,tidegate_api=debug`.
    pub level: String,
    /// The form of a line.
    pub format: LogFormat,
    /// Where `access.log` and `error.log` are written; empty = standard error instead.
    pub directory: PathBuf,
    /// Whether there is a line for each request. Daemons that take none do not have this key.
    #[serde(default)]
    pub access: Option<bool>,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
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

/// Why logs cannot be written as they should.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A part of the level is neither a level nor a rule.
    #[error(
        "log.level: {0:?} is no level; take error, warn, info, debug or trace, or rules such as info,tidegate_api=debug"
    )]
    NoLevel(String),
    /// The level is no filter.
    #[error("log.level: {0}")]
    BadLevel(#[from] ParseError),
    /// Logging is set up already.
    #[error("logs: {0}")]
    Twice(#[from] TryInitError),
    /// A file cannot be opened.
    #[error("log.directory: cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl LogConfig {
    /// Checks what types cannot.
    ///
    /// # Errors
    /// The level is not what it should be.
    pub fn check(&self) -> Result<(), LogError> {
        level_filter(&self.level).map(drop)
    }
}

/// The logs of this process. They are closed when this is dropped.
#[expect(missing_debug_implementations, reason = "there is nothing to show")]
pub struct Logs {
    level: reload::Handle<EnvFilter, Registry>,
    outputs: Outputs,
}

/// What became of the log files that were opened again.
#[derive(Debug)]
pub struct Reopened {
    /// How many are new, or the same as before.
    pub count: usize,
    /// Why the others could not be opened.
    pub failed: Vec<LogError>,
}

struct Outputs {
    standard_error: Output,
    /// Empty without a directory.
    files: Vec<Output>,
}

/// Sends the events of this process to where they belong. To be called once.
///
/// # Errors
/// See [`LogError`].
pub fn init(config: &LogConfig) -> Result<Logs, LogError> {
    let (level_filter, level) = reload::Layer::new(level_filter(&config.level)?);
    let mut outputs = Outputs {
        standard_error: Output::standard_error()?,
        files: Vec::new(),
    };
    let errors = outputs.open(&config.directory, "error.log")?;
    // Without a hint every event of every library would be looked at.
    let is_other =
        filter_fn(|metadata| metadata.target() != ACCESS).with_max_level_hint(LevelFilter::TRACE);
    let main = lines(config, errors).with_filter(is_other.and(level_filter));
    let access = match config.access {
        Some(is_on) => {
            set_access_log(is_on);
            let requests = outputs.open(&config.directory, "access.log")?;
            Some(lines(config, requests).with_filter(access_filter()))
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

/// Writes a line to standard error for a process that is about to end, and waits for that for a second at
/// most.
pub fn print_error(line: &str) {
    if let Ok(output) = Output::standard_error() {
        // It never fails.
        let _ = writeln!(output.writer(), "{line}");
        output.close(Instant::now() + CLOSE_LIMIT);
    }
}

impl Logs {
    /// Changes how much is logged.
    ///
    /// # Errors
    /// It is no level; nothing has changed.
    pub fn set_level(&self, level: &str) -> Result<(), LogError> {
        // Fails only if logging has ended.
        let _ = self.level.reload(level_filter(level)?);
        Ok(())
    }

    /// Opens the log files again: those that were moved away are left, and new ones created. Where that fails the
    /// file that is open stays in use.
    #[must_use]
    pub fn reopen(&self) -> Reopened {
        let (mut count, mut failed) = (0, Vec::new());
        for file in &self.outputs.files {
            match file.reopen() {
                Ok(()) => count += 1,
                Err(error) => failed.push(error),
            }
        }
        Reopened { count, failed }
    }

    /// Writes a line to standard error, for a problem of the log files.
    pub fn print_error(&self, line: &str) {
        // It never fails.
        let _ = writeln!(self.outputs.standard_error.writer(), "{line}");
    }

    /// Writes the lines that are waiting, for a second at most. Later lines are lost.
    pub fn close(&self) {
        let deadline = Instant::now() + CLOSE_LIMIT;
        // A file reports its failures to standard error.
        for output in self
            .outputs
            .files
            .iter()
            .chain([&self.outputs.standard_error])
        {
            output.close(deadline);
        }
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.close();
    }
}

impl Outputs {
    /// Where lines go: to the file of this name, or to standard error if there is no directory.
    fn open(&mut self, directory: &Path, name: &str) -> Result<BoxMakeWriter, LogError> {
        let errors = self.standard_error.writer();
        if directory.as_os_str().is_empty() {
            return Ok(BoxMakeWriter::new(errors));
        }
        let file = Output::file(directory.join(name), errors)?;
        let writer = file.writer();
        self.files.push(file);
        Ok(BoxMakeWriter::new(writer))
    }
}

/// Everything or nothing, as [`access_log`] says at that moment. The hint and the interest spare the
/// other events a look at it.
fn access_filter<S>() -> impl tracing_subscriber::layer::Filter<S> {
    dynamic_filter_fn(|metadata, _| metadata.target() == ACCESS && access_log())
        .with_max_level_hint(LevelFilter::INFO)
        .with_callsite_filter(|metadata| {
            if metadata.target() == ACCESS {
                Interest::sometimes()
            } else {
                Interest::never()
            }
        })
}

/// A filter, which lets reports of lost lines pass in any case. One word that is no level would be taken for a part of the program that is logged in all
/// detail, which nobody means.
fn level_filter(level: &str) -> Result<EnvFilter, LogError> {
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let is_known = |word: &&str| word.contains(['=', '[']) || is_level(word);
    let words = level.split(',').map(str::trim);
    if let Some(word) = words.into_iter().find(|word| !is_known(word)) {
        return Err(LogError::NoLevel(word.to_owned()));
    }
    let filter = EnvFilter::try_new(level)?;
    Ok(filter.add_directive(format!("{REPORT}=warn").parse()?))
}

fn lines<S>(config: &LogConfig, output: BoxMakeWriter) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    // Colours are for terminals; in a file they are noise.
    let is_terminal = config.directory.as_os_str().is_empty()
        && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = fmt::layer().with_writer(output).with_ansi(is_terminal);
    match config.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
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
                Err(LogError::NoLevel(found)) => assert_eq!(found, word),
                other => panic!("{level}: {:?}", other.map(|_| ())),
            }
        }
        assert!(level_filter("tidegate_api=loud").is_err());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let mut outputs = Outputs {
            standard_error: Output::standard_error().unwrap(),
            files: Vec::new(),
        };
        let error = outputs.open(&missing, "error.log").err().unwrap();
        let said = error.to_string();
        assert!(said.starts_with("log.directory: cannot write"), "{said}");
        assert!(said.contains("missing/error.log"), "{said}");
    }
}
