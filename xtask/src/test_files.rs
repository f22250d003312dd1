//! The folder for the temporary files of tests: in memory, where that is possible.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{StatVfsMountFlags, statvfs};

/// A file system in memory, on Linux.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "tidegate-test-";
/// The tests need a tenth of it.
const FREE_BYTES_MIN: u64 = 4 << 30;

/// A folder for the temporary files of tests. Redis waits for the disk at each write in many tests (`appendfsync
/// always`), and on a slow disk these take several times as long.
#[derive(Debug)]
pub(crate) struct TestFiles {
    /// `None` for the folder of the system.
    in_memory: Option<PathBuf>,
}

impl TestFiles {
    /// Takes a folder in memory if there is room and `TMPDIR` names no other. Removes folders of runs that have ended.
    pub(crate) fn new() -> Self {
        let in_memory = env::var_os("TMPDIR").is_none() && has_room(Path::new(MEMORY));
        Self {
            in_memory: in_memory.then(|| create_in(Path::new(MEMORY))).flatten(),
        }
    }

    /// The value of `TMPDIR` for the tests; `None` = as it is.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.in_memory.as_deref()
    }

    /// Removes the files. Without a call they stay, for their logs, until the next run.
    pub(crate) fn remove(&self) {
        if let Some(folder) = &self.in_memory {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

fn has_room(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|system| {
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        // Tests also run programs from their folders.
        free >= FREE_BYTES_MIN && !system.f_flag.contains(StatVfsMountFlags::NOEXEC)
    })
}

fn create_in(memory: &Path) -> Option<PathBuf> {
    remove_ended(memory);
    let folder = memory.join(format!("{PREFIX}{}", process::id()));
    fs::create_dir(&folder).ok()?;
    Some(folder)
}

/// Removes the folders of processes that no longer run.
fn remove_ended(memory: &Path) {
    for entry in fs::read_dir(memory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_number = |pid: &&str| pid.parse::<u32>().is_ok();
        if let Some(pid) = pid.filter(is_number)
            && !Path::new("/proc").join(pid).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_ended_runs_are_removed_and_no_others() {
        let memory = tempfile::tempdir().unwrap();
        let names = [
            // No process has this number: the kernel's limit is 2^22.
            "tidegate-test-4194305".to_owned(),
            format!("{PREFIX}{}", process::id()),
            "tidegate-test-x".to_owned(),
            "other".to_owned(),
        ];
        for name in &names {
            fs::create_dir(memory.path().join(name)).unwrap();
        }
        remove_ended(memory.path());
        let left = names.map(|name| memory.path().join(name).exists());
        assert_eq!(left, [false, true, true, true]);
    }

    #[test]
    fn a_folder_is_created_and_removed() {
        let memory = tempfile::tempdir().unwrap();
        let files = TestFiles {
            in_memory: create_in(memory.path()),
        };
        let folder = files.folder().unwrap().to_owned();
        assert!(folder.is_dir());
        files.remove();
        assert!(!folder.exists());
    }
}
