//! Runs another program with a time limit.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs `command` to its end and returns its standard output. After `limit` the program is killed.
///
/// # Errors
/// One line: the program's error message, or why it could not run.
pub fn run(command: &mut Command, limit: Duration) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let (status, stdout, stderr) =
        run_captured(command, limit).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("{program} not found"),
            _ => format!("failed to run {program}: {error}"),
        })?;
    match status {
        None => Err(format!("{program} took longer than {} s", limit.as_secs())),
        Some(status) if status.success() => Ok(stdout),
        Some(status) => Err(format!(
            "{program} failed ({status}): {}",
            last_line(&stderr, &stdout)
        )),
    }
}

/// Whether a program of this name is found on PATH.
#[must_use]
pub fn is_on_path(name: &str) -> bool {
    on_path(name).next().is_some()
}

/// Returns every executable of this name on PATH, in order.
pub fn on_path(name: &str) -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let name = name.to_owned();
    folders
        .into_iter()
        .map(move |folder| folder.join(&name))
        .filter(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Output goes to files instead of pipes: a full pipe would block the program, and draining it would need a thread.
fn run_captured(
    command: &mut Command,
    limit: Duration,
) -> io::Result<(Option<ExitStatus>, String, String)> {
    let stdout = tempfile::tempfile()?;
    let stderr = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let mut child = spawn(command)?;
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            break None;
        }
        sleep(POLL_INTERVAL);
    };
    Ok((status, read(stdout)?, read(stderr)?))
}

/// Retries ETXTBSY: a program that was just written is busy while a child of another thread, between fork and exec,
/// still has the file open for writing.
fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut tries_left = 100;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries_left > 0 => {
                tries_left -= 1
            }
            other => return other,
        }
        sleep(POLL_INTERVAL);
    }
}

fn read(mut file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the error message of a program: package managers mark it (`E: `, `ERROR: `, `[ERROR] `), other programs
/// print it last.
fn last_line(stderr: &str, stdout: &str) -> String {
    let lines = || {
        stderr
            .lines()
            .chain(stdout.lines())
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let is_marked = |line: &&str| {
        ["E: ", "ERROR: ", "[ERROR] "]
            .iter()
            .any(|mark| line.starts_with(mark))
    };
    let marked = lines().find(is_marked);
    let message = marked.or_else(|| stderr.lines().map(str::trim).rfind(|line| !line.is_empty()));
    let message = message
        .or_else(|| lines().next_back())
        .unwrap_or("no output");
    if stderr.contains("connection broken") {
        return format!("{message} (the network is unreachable)");
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn returns_the_output() {
        assert_eq!(
            run(
                &mut shell("echo one; echo two >&2"),
                Duration::from_secs(10)
            ),
            Ok("one\n".to_owned())
        );
    }

    #[test]
    fn an_error_has_the_message_of_the_program() {
        let failed = run(
            &mut shell("echo 'E: no such package'; echo other >&2; exit 3"),
            Duration::from_secs(10),
        );
        assert_eq!(
            failed,
            Err("sh failed (exit status: 3): E: no such package".to_owned())
        );
        let failed = run(
            &mut shell("echo first >&2; echo second >&2; exit 1"),
            Duration::from_secs(10),
        );
        assert_eq!(failed, Err("sh failed (exit status: 1): second".to_owned()));
    }

    #[test]
    fn a_missing_program_is_named() {
        let missing = run(
            &mut Command::new("no-such-program-here"),
            Duration::from_secs(10),
        );
        assert_eq!(missing, Err("no-such-program-here not found".to_owned()));
    }

    #[test]
    fn a_program_is_killed_after_the_limit() {
        let begin = Instant::now();
        let late = run(&mut shell("exec sleep 30"), Duration::from_millis(100));
        assert_eq!(late, Err("sh took longer than 0 s".to_owned()));
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
