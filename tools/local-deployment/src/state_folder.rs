//! Ensures that one deployment at a time uses a folder, and detects processes that an earlier one left running.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tidegate_local_redis::process_title;

/// Locks the state folder. The lock is released when the returned file is dropped, or the process ends.
///
/// # Errors
/// Another process holds the lock; the message has its id.
pub fn lock(folder: &Path) -> Result<File, String> {
    let path = folder.join("lock");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = File::options()
        .create(true)
        .read(true)
        .append(true)
        .open(&path)
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            file.set_len(0).map_err(failed)?;
            std::io::Write::write_all(&mut file, std::process::id().to_string().as_bytes())
                .map_err(failed)?;
            Ok(file)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            Err(format!(
                "another command is running (process {pid}): {} is in use; stop it first",
                folder.display()
            ))
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// Path of the pid file of a daemon.
pub(crate) fn pid_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.pid"))
}

/// Writes the pid file of a daemon, with its program, for a later command.
pub(crate) fn write_pid(folder: &Path, name: &str, pid: u32, program: &Path) -> Result<(), String> {
    let path = pid_path(folder, name);
    fs::write(&path, format!("{pid} {}\n", program.display()))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Fails if daemons of an earlier command are still running: processes with a recorded id that run the recorded
/// program. Kills nothing, and removes other pid files.
///
/// # Errors
/// A message with their process ids.
pub fn check_no_daemons(folder: &Path) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let notes = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "pid"));
    let mut left = Vec::new();
    for note in notes {
        match running_process(&note) {
            Some(pid) => left.push((
                pid,
                note.file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
            )),
            None => drop(fs::remove_file(note)),
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    left.sort();
    let pids: Vec<_> = left.iter().map(|(pid, _)| pid.to_string()).collect();
    let names: Vec<_> = left
        .iter()
        .map(|(pid, name)| format!("{name} (process {pid})"))
        .collect();
    Err(format!(
        "an earlier command was killed and left these running: {}\nstop them first: kill {}",
        names.join(", "),
        pids.join(" ")
    ))
}

fn running_process(note: &Path) -> Option<u32> {
    let text = fs::read_to_string(note).ok()?;
    let (pid, program) = text.trim().split_once(' ')?;
    let pid = pid.parse().ok()?;
    process_title(pid)
        .filter(|title| title.starts_with(program))
        .map(|_| pid)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const TRIES: usize = 500;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

    #[test]
    fn a_second_lock_fails_and_names_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        let message = lock(folder.path()).unwrap_err();
        assert!(
            message.contains(&format!("process {}", std::process::id())),
            "{message}"
        );
        drop(held);
        // A child that another test is starting holds the lock too, between fork and exec.
        let is_free = (0..TRIES).any(|_| {
            let is_free = lock(folder.path()).is_ok();
            if !is_free {
                std::thread::sleep(PAUSE);
            }
            is_free
        });
        assert!(is_free);
    }

    #[test]
    fn a_left_over_daemon_is_named_and_another_process_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        // Right after its start a process has the title of this one, or none.
        while process_title(child.id()).is_none_or(|title| !title.starts_with("sleep")) {
            std::thread::yield_now();
        }
        write_pid(
            folder.path(),
            "tidegate-api",
            child.id(),
            Path::new("/elsewhere/tidegate-api"),
        )
        .unwrap();
        assert_eq!(
            check_no_daemons(folder.path()),
            Ok(()),
            "another program has the id"
        );
        assert!(
            !pid_path(folder.path(), "tidegate-api").exists(),
            "the stale pid file is removed"
        );

        write_pid(
            folder.path(),
            "tidegate-api",
            child.id(),
            Path::new("sleep"),
        )
        .unwrap();
        let message = check_no_daemons(folder.path()).unwrap_err();
        assert!(
            message.contains(&format!("tidegate-api (process {})", child.id())),
            "{message}"
        );
        assert!(
            message.ends_with(&format!("kill {}", child.id())),
            "{message}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(check_no_daemons(folder.path()), Ok(()));
    }
}
