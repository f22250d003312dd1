//! The cache of downloaded programs, shared by several processes.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::file_lock::try_lock_for;

/// Longest wait for the lock: more than one process needs for all sources.
const LOCK_LIMIT: Duration = Duration::from_secs(600);

/// A source: its name, and the function that fills the given empty folder.
pub type DownloadSource<'a> = (
    &'a str,
    &'a dyn Fn(&Path, &mut dyn FnMut(&str)) -> Result<(), String>,
);

/// Returns the cache folder `name` of this workspace: `target/NAME` in its root.
#[must_use]
pub fn workspace_cache(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here);
    root.join("target").join(name)
}

/// Why a program was not obtained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObtainError {
    /// No source has the program: each with its reason, in the order in which they were tried.
    #[error("no source has the program\n{}", failure_lines(.0))]
    NotObtained(Vec<FailedSource>),
    /// A program was stored, and then cannot be used.
    #[error("{} cannot be used: {reason}", path.display())]
    Unusable {
        /// Its folder.
        path: PathBuf,
        /// The reason, in one line.
        reason: String,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation, such as `locking FILE`.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl ObtainError {
    fn io(doing: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

/// A source that has no usable program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedSource {
    /// The source, such as "PATH".
    pub source: String,
    /// Why it failed, in one line.
    pub reason: String,
}

impl FailedSource {
    /// A source, and why it failed. White space in the reason becomes single spaces.
    #[must_use]
    pub fn new(route: &str, reason: &str) -> Self {
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            source: route.to_owned(),
            reason,
        }
    }
}

impl fmt::Display for FailedSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.source, self.reason)
    }
}

/// The sources that failed, a line for each.
#[must_use]
pub fn failure_lines(tried: &[FailedSource]) -> String {
    tried
        .iter()
        .map(|one| format!("  - {one}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// An entry of the cache, and which programs it accepts.
#[expect(missing_debug_implementations, reason = "it has a function")]
pub struct ProgramEntry<'a, T> {
    /// The name of its folder.
    pub name: &'a str,
    /// The name of the program for errors, such as `Redis 7.0 or newer`.
    pub wanted: &'a str,
    /// Accepts the program in a folder, if it runs on this machine.
    pub check: &'a dyn Fn(&Path) -> Result<T, String>,
}

/// The cache folder. Each program is a folder in it.
#[derive(Debug)]
pub struct ProgramCache {
    folder: PathBuf,
}

impl ProgramCache {
    /// A cache in this folder, which is created when it is needed.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Returns the program of this entry. If the entry has no usable program, the first source that has it provides it.
    /// Several processes may call this at once: one downloads, the others wait for it. `progress` receives short lines
    /// about steps that take time. `tried` are sources that have failed before.
    ///
    /// # Errors
    /// No source has a program that the entry accepts, or the folder cannot be written.
    pub fn obtain<T: fmt::Display>(
        &self,
        entry: &ProgramEntry<'_, T>,
        mut tried: Vec<FailedSource>,
        sources: &[DownloadSource<'_>],
        progress: &mut dyn FnMut(&str),
    ) -> Result<T, ObtainError> {
        if let Some(kept) = self.find(entry) {
            return Ok(kept);
        }
        let _lock = self.lock(progress)?;
        if let Some(kept) = self.find(entry) {
            return Ok(kept);
        }
        for (name, fetch) in sources {
            progress(&format!("trying to obtain {}: {name}", entry.wanted));
            let fresh = self.empty_folder()?;
            match fetch(fresh.path(), progress).and_then(|()| (entry.check)(fresh.path())) {
                Ok(_) => {
                    let kept = self.store(fresh, entry)?;
                    progress(&format!("obtained {kept}"));
                    return Ok(kept);
                }
                Err(reason) => {
                    let one = FailedSource::new(name, &reason);
                    progress(&one.to_string());
                    tried.push(one);
                }
            }
        }
        Err(ObtainError::NotObtained(tried))
    }

    /// Returns the program of this entry, if it still runs.
    fn find<T>(&self, entry: &ProgramEntry<'_, T>) -> Option<T> {
        (entry.check)(&self.folder.join(entry.name)).ok()
    }

    /// Waits until no other process downloads. The lock is released when the returned file is dropped,
    /// or the process ends.
    fn lock(&self, progress: &mut dyn FnMut(&str)) -> Result<File, ObtainError> {
        let path = self.folder.join("lock");
        let doing = || format!("locking {}", path.display());
        fs::create_dir_all(&self.folder).map_err(ObtainError::io(doing()))?;
        let waiting = || progress("waiting for another process that is downloading");
        let locked = try_lock_for(&path, LOCK_LIMIT, waiting).map_err(ObtainError::io(doing()))?;
        locked.ok_or_else(|| ObtainError::io(doing())(rustix::io::Errno::WOULDBLOCK.into()))
    }

    /// Creates an empty folder on the same file system, which is removed unless it is passed to
    /// [`Self::store`].
    fn empty_folder(&self) -> Result<TempDir, ObtainError> {
        let doing = format!("creating a folder in {}", self.folder.display());
        tempfile::Builder::new()
            .prefix("fetch-")
            .tempdir_in(&self.folder)
            .map_err(ObtainError::io(doing))
    }

    /// Atomically renames a filled folder to its entry. The caller must hold the lock.
    fn store<T>(&self, fresh: TempDir, entry: &ProgramEntry<'_, T>) -> Result<T, ObtainError> {
        let target = self.folder.join(entry.name);
        let doing = || format!("keeping {}", target.display());
        if target.exists() {
            // It is unusable. It is moved atomically too, since another process may be checking it.
            let away = self.empty_folder()?;
            fs::rename(&target, away.path().join("unusable")).map_err(ObtainError::io(doing()))?;
        }
        fs::rename(fresh.keep(), &target).map_err(ObtainError::io(doing()))?;
        (entry.check)(&target).map_err(|reason| ObtainError::Unusable {
            path: target,
            reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(folder: &Path) -> Result<String, String> {
        let text = fs::read_to_string(folder.join("program"));
        text.map_err(|_| "no program in it".to_owned())
    }

    const ENTRY: ProgramEntry<'_, String> = ProgramEntry {
        name: "recent",
        wanted: "a program",
        check: &check,
    };

    fn obtain(cache: &Path, source: DownloadSource<'_>) -> Result<String, ObtainError> {
        ProgramCache::new(cache).obtain(&ENTRY, Vec::new(), &[source], &mut |_| {})
    }

    #[test]
    fn a_program_is_downloaded_once_and_an_unusable_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("recent")).unwrap();
        let writes = |folder: &Path, _: &mut dyn FnMut(&str)| {
            fs::write(folder.join("program"), "1").map_err(|error| error.to_string())
        };
        assert_eq!(obtain(folder.path(), ("one", &writes)).unwrap(), "1");
        let names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        let fails = |_: &Path, _: &mut dyn FnMut(&str)| Err("closed".to_owned());
        assert_eq!(obtain(folder.path(), ("two", &fails)).unwrap(), "1");
    }

    #[test]
    fn every_failed_source_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let fails = |_: &Path, _: &mut dyn FnMut(&str)| Err("is\n closed".to_owned());
        let empty = |_: &Path, _: &mut dyn FnMut(&str)| Ok(());
        let mut lines = Vec::new();
        let error = ProgramCache::new(folder.path())
            .obtain(
                &ENTRY,
                vec![FailedSource::new("PATH", "nothing")],
                &[("first", &fails), ("second", &empty)],
                &mut |line| lines.push(line.to_owned()),
            )
            .unwrap_err();
        let expected = "no source has the program\n  - PATH: nothing\n  - first: is closed\n  - second: no program in it";
        assert_eq!(error.to_string(), expected);
        assert_eq!(lines.len(), 4, "{lines:?}");
    }

    #[test]
    fn the_lock_admits_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ProgramCache::new(folder.path());
        let held = cache.lock(&mut |_| {}).unwrap();
        let (sender, waiting_rx) = std::sync::mpsc::channel();
        let lines = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut lines = 0;
                let count = &mut |_: &str| {
                    lines += 1;
                    sender.send(()).unwrap();
                };
                let _lock = cache.lock(count).unwrap();
                lines
            });
            waiting_rx.recv().unwrap();
            drop(held);
            waiting.join().unwrap()
        });
        assert_eq!(lines, 1);
    }
}
