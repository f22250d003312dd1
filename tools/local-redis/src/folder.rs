//! The data folder of a server: configuration, log and data. One server at a time uses it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_local_program::{log_tail, process_title, try_lock_for};

use crate::error::LocalRedisError;

/// The environment variable that, set to `1`, keeps temporary data folders.
pub const KEEP_VARIABLE: &str = "TG_KEEP";

/// Longest wait for the lock. A released lock may be held a moment longer by a child process that another thread is
/// starting: between fork and exec the child has a copy of every open file.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    /// Removes the folder when dropped.
    _temporary: Option<TempDir>,
    /// Locked as long as the folder is in use.
    _lock: File,
}

impl DataFolder {
    /// Opens the given folder, or creates a temporary one.
    pub(crate) fn open(wanted: Option<&Path>) -> Result<Self, LocalRedisError> {
        let (path, temporary) = match wanted {
            Some(path) => {
                fs::create_dir_all(path)
                    .map_err(LocalRedisError::io(format!("creating {}", path.display())))?;
                (
                    path.canonicalize()
                        .map_err(LocalRedisError::io(format!("opening {}", path.display())))?,
                    None,
                )
            }
            None => {
                let folder = temporary_folder()
                    .map_err(LocalRedisError::io("creating a temporary folder"))?;
                (folder.path().to_owned(), Some(folder))
            }
        };
        let lock = lock(&path)?;
        let folder = Self {
            path,
            _temporary: temporary,
            _lock: lock,
        };
        match folder.running_server() {
            Some(pid) => Err(LocalRedisError::FolderInUse {
                folder: folder.path,
                pid: Some(pid),
            }),
            None => Ok(folder),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn configuration_path(&self) -> PathBuf {
        self.path.join("redis.conf")
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.path.join("redis.log")
    }

    /// Returns the last lines of the log, starting at byte `since` at the earliest.
    pub(crate) fn log_tail(&self, since: u64) -> String {
        log_tail(&self.log_path(), since)
    }

    /// Records the process that uses this folder, for later users of the folder.
    pub(crate) fn write_pid(&self, pid: u32, port: u16) -> Result<(), LocalRedisError> {
        let path = self.pid_path();
        fs::write(&path, format!("{pid} {port}\n"))
            .map_err(LocalRedisError::io(format!("writing {}", path.display())))
    }

    pub(crate) fn remove_pid(&self) {
        let _ = fs::remove_file(self.pid_path());
    }

    fn pid_path(&self) -> PathBuf {
        self.path.join("redis.pid")
    }

    /// Returns the server that an earlier user of this folder left running: the recorded process, if it is alive and
    /// its title names a server on the recorded port.
    fn running_server(&self) -> Option<u32> {
        let note = fs::read_to_string(self.pid_path()).ok()?;
        let (pid, port) = note.trim().split_once(' ')?;
        let pid = pid.parse().ok()?;
        let title = process_title(pid)?;
        let is_ours = title.contains("-server ") && title.contains(&format!(":{port}"));
        is_ours.then_some(pid)
    }
}

fn temporary_folder() -> std::io::Result<TempDir> {
    let is_kept = std::env::var_os(KEEP_VARIABLE).is_some_and(|value| value == "1");
    tempfile::Builder::new()
        .prefix("tidegate-redis-")
        .disable_cleanup(is_kept)
        .tempdir()
}

fn lock(folder: &Path) -> Result<File, LocalRedisError> {
    let path = folder.join("lock");
    let locked = try_lock_for(&path, LOCK_PATIENCE, || {})
        .map_err(LocalRedisError::io(format!("locking {}", path.display())))?;
    locked.ok_or_else(|| LocalRedisError::FolderInUse {
        folder: folder.to_owned(),
        pid: None,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_folder_can_be_opened_again_while_other_threads_start_processes() {
        let folder = tempfile::tempdir().unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    Command::new("true").status().unwrap();
                }
            });
            let opened = (0..300).find_map(|_| DataFolder::open(Some(folder.path())).err());
            done.store(true, Ordering::Relaxed);
            assert!(opened.is_none(), "{opened:?}");
        });
    }

    #[test]
    fn a_folder_has_one_owner_at_a_time() {
        let parent = tempfile::tempdir().unwrap();
        let first = DataFolder::open(Some(parent.path())).unwrap();
        assert!(matches!(
            DataFolder::open(Some(parent.path())),
            Err(LocalRedisError::FolderInUse { pid: None, .. })
        ));
        drop(first);
        assert!(DataFolder::open(Some(parent.path())).is_ok());
    }

    #[test]
    fn a_process_that_is_not_a_server_does_not_block_the_folder() {
        let parent = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(Some(parent.path())).unwrap();
        folder.write_pid(std::process::id(), 1).unwrap();
        assert_eq!(folder.running_server(), None);
    }
}
