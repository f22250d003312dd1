//! A running daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use tidegate_local_program::{ProgramProcess, log_tail};

/// A daemon with a log. It ends when this is dropped, and when this process is killed.
#[derive(Debug)]
pub struct DevProcess {
    name: String,
    process: ProgramProcess,
    log: PathBuf,
}

impl DevProcess {
    /// Starts a program in a separate process group: Ctrl-C in the terminal reaches only this process, which then
    /// stops the others in order. The log is in `folder`.
    ///
    /// # Errors
    /// A message for the user.
    pub fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> Result<Self, String> {
        let log = folder.join(format!("{name}.log"));
        fs::write(&log, "").map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(program);
        command.args(arguments);
        let process = ProgramProcess::start(&mut command, &log)
            .map_err(|error| format!("failed to run {}: {error}", program.display()))?;
        Ok(Self {
            name: name.to_owned(),
            process,
            log,
        })
    }

    /// Its name, as in its log.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the exit status if it has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.exit_status()
    }

    /// Returns a message with the last log lines if it has ended.
    pub fn exit_report(&mut self) -> Option<String> {
        let status = self.exit_status()?;
        let log = log_tail(&self.log, 0);
        Some(format!(
            "{} ended ({status}); last lines of {}:\n{log}",
            self.name,
            self.log.display()
        ))
    }

    /// Returns the warnings in its log, without time and module.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let warned = text.lines().filter_map(|line| line.split_once(" WARN "));
        // The module path ends with ": ".
        warned
            .map(|(_, rest)| {
                rest.split_once(": ")
                    .map_or(rest, |(_, words)| words)
                    .to_owned()
            })
            .collect()
    }

    /// Whether its log contains this word.
    #[must_use]
    pub fn has_logged(&self, word: &str) -> bool {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.split(|letter: char| !letter.is_ascii_alphanumeric())
            .any(|said| said == word)
    }

    /// Sends SIGTERM, without waiting for the end.
    pub fn terminate(&self) {
        self.process.terminate();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(folder: &Path, script: &str) -> DevProcess {
        DevProcess::start(
            "sample",
            Path::new("sh"),
            &["-c".to_owned(), script.to_owned()],
            folder,
        )
        .unwrap()
    }

    #[test]
    fn an_end_is_reported_with_the_last_log_lines() {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = shell(folder.path(), "echo already; echo 'it is ready'; exit 3");
        while daemon.exit_status().is_none() {
            std::thread::yield_now();
        }
        let words = daemon.exit_report().unwrap();
        assert!(
            words.starts_with("sample ended (exit status: 3); last lines of "),
            "{words}"
        );
        assert!(words.ends_with("already\nit is ready"), "{words}");
        assert!(daemon.has_logged("ready") && !daemon.has_logged("read"));
    }

    #[test]
    fn warnings_are_shown_without_time_and_module() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo '2026-11-21T06:18:37Z  WARN a::b: jobs may be lost: no file'; echo '…  INFO a: ready'";
        let mut daemon = shell(folder.path(), script);
        while daemon.exit_status().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(daemon.warnings(), ["jobs may be lost: no file"]);
    }

    #[test]
    fn dropping_kills_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = shell(folder.path(), "exec sleep 60");
        assert!(daemon.exit_report().is_none());
        let pid = daemon.pid();
        drop(daemon);
        assert_eq!(tidegate_local_program::process_title(pid), None);
    }
}
