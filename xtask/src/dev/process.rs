//! One of our daemons, while it runs.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::leftovers;

const LOG_LINES_TOLD: usize = 15;

#[derive(Debug)]
pub(crate) struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
    note: PathBuf,
}

impl Daemon {
    /// Starts a program. It has its own process group, so that Ctrl-C at the terminal reaches only this process, which
    /// then ends the others in order.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> Result<Self, String> {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let errors = output
            .try_clone()
            .map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        let child = command
            .spawn()
            .map_err(|error| format!("{} cannot run: {error}", program.display()))?;
        let daemon = Self {
            name: name.to_owned(),
            child,
            log,
            note: leftovers::note_path(folder, name),
        };
        leftovers::note(folder, name, daemon.child.id(), program)?;
        Ok(daemon)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// What there is to say if it ended by itself.
    pub(crate) fn last_words(&mut self) -> Option<String> {
        let status = self.ended()?;
        let log = log_tail(&self.log);
        Some(format!(
            "{} ended ({status}); last lines of {}:\n{log}",
            self.name,
            self.log.display()
        ))
    }

    /// What it has warned of, without time and place.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let warned = text.lines().filter_map(|line| line.split_once(" WARN "));
        // The place is a path of modules; what follows it is for people.
        warned
            .map(|(_, rest)| {
                rest.split_once(": ")
                    .map_or(rest, |(_, words)| words)
                    .to_owned()
            })
            .collect()
    }

    /// Whether its log has a line with this word.
    pub(crate) fn has_said(&self, word: &str) -> bool {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.split(|letter: char| !letter.is_ascii_alphanumeric())
            .any(|said| said == word)
    }

    pub(crate) fn ask_to_end(&mut self) {
        // Only while its end is not collected is the process id certain to be its own.
        if self.ended().is_none() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.note);
    }
}

fn log_tail(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().map(|line| format!("  {line}")).collect();
    lines[lines.len().saturating_sub(LOG_LINES_TOLD)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(folder: &Path, script: &str) -> Daemon {
        Daemon::start(
            "sample",
            Path::new("sh"),
            &["-c".to_owned(), script.to_owned()],
            folder,
        )
        .unwrap()
    }

    #[test]
    fn an_end_is_told_with_the_last_lines_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = shell(folder.path(), "echo already; echo 'it is ready'; exit 3");
        daemon.child.wait().unwrap();
        let words = daemon.last_words().unwrap();
        assert!(
            words.starts_with("sample ended (exit status: 3); last lines of "),
            "{words}"
        );
        assert!(words.ends_with("  already\n  it is ready"), "{words}");
        assert!(daemon.has_said("ready") && !daemon.has_said("read"));
    }

    #[test]
    fn warnings_are_told_without_time_and_place() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo '2026-11-21T06:18:37Z  WARN a::b: jobs may be lost: no file'; echo '…  INFO a: ready'";
        let mut daemon = shell(folder.path(), script);
        daemon.child.wait().unwrap();
        assert_eq!(daemon.warnings(), ["jobs may be lost: no file"]);
    }

    #[test]
    fn dropping_ends_the_process_and_its_note() {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = shell(folder.path(), "exec sleep 60");
        assert!(daemon.last_words().is_none());
        let (pid, note) = (daemon.pid(), daemon.note.clone());
        assert!(note.is_file());
        drop(daemon);
        assert!(!note.exists());
        assert_eq!(tidegate_local_redis::process_title(pid), None);
    }
}
