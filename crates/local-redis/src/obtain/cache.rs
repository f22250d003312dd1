//! The cache of downloaded servers, shared by several processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::error::LocalRedisError;
use crate::file_lock::try_lock_for;
use crate::locate::{OLDEST_MAJOR, PROGRAM_NAMES, ServerBinary};

/// Longest wait for the lock: more than one process needs for all sources.
const LOCK_LIMIT: Duration = Duration::from_secs(600);

/// The cache folder. Each server is a folder in it, with `bin/` and, if needed, libraries in `lib/`.
#[derive(Debug)]
pub(crate) struct BinaryCache {
    folder: PathBuf,
}

/// An entry of the cache, and which servers it accepts.
#[derive(Debug)]
pub(crate) struct CachedBinary {
    name: &'static str,
    pub(crate) wanted: &'static str,
    wants_recent: bool,
}

impl CachedBinary {
    pub(crate) fn recent() -> Self {
        Self {
            name: "recent",
            wanted: "Redis 7.0 or newer",
            wants_recent: true,
        }
    }

    pub(crate) fn old() -> Self {
        Self {
            name: "old",
            wanted: "Redis 6.2",
            wants_recent: false,
        }
    }

    pub(crate) fn valkey() -> Self {
        Self {
            name: "valkey",
            wanted: "Valkey 8",
            wants_recent: true,
        }
    }

    /// Accepts the server in `folder` if it runs on this machine and has a suitable version.
    pub(crate) fn check(&self, folder: &Path) -> Result<ServerBinary, String> {
        let bin = folder.join("bin");
        let path = PROGRAM_NAMES
            .iter()
            .map(|name| bin.join(name))
            .find(|path| path.is_file());
        let path = path.ok_or_else(|| format!("no {} in it", PROGRAM_NAMES.join(" or ")))?;
        let libraries = Some(folder.join("lib")).filter(|lib| lib.is_dir());
        let binary = ServerBinary::inspect(&path, libraries.as_deref())?;
        if self.wants_recent {
            return binary.require_recent();
        }
        if binary.is_recent() {
            return Err(format!(
                "{} {} is not older than {OLDEST_MAJOR}.0",
                binary.flavour(),
                binary.version()
            ));
        }
        Ok(binary)
    }
}

impl BinaryCache {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Returns the server of this entry, if it still runs.
    pub(crate) fn find(&self, shelf: &CachedBinary) -> Option<ServerBinary> {
        shelf.check(&self.folder.join(shelf.name)).ok()
    }

    /// Waits until no other process downloads. The lock is released when the returned file is dropped,
    /// or the process ends.
    pub(crate) fn lock(&self, progress: &mut dyn FnMut(&str)) -> Result<File, LocalRedisError> {
        let path = self.folder.join("lock");
        let doing = || format!("locking {}", path.display());
        fs::create_dir_all(&self.folder).map_err(LocalRedisError::io(doing()))?;
        let waiting = || progress("waiting for another process that is downloading Redis");
        let locked = try_lock_for(&path, LOCK_LIMIT, waiting)?;
        locked.ok_or_else(|| LocalRedisError::io(doing())(rustix::io::Errno::WOULDBLOCK.into()))
    }

    /// Creates an empty folder on the same file system, which is removed unless it is passed to
    /// [`Self::store`].
    pub(crate) fn empty_folder(&self) -> Result<TempDir, LocalRedisError> {
        let doing = format!("creating a folder in {}", self.folder.display());
        tempfile::Builder::new()
            .prefix("fetch-")
            .tempdir_in(&self.folder)
            .map_err(LocalRedisError::io(doing))
    }

    /// Atomically renames a filled folder to its entry. The caller must hold the lock.
    pub(crate) fn store(
        &self,
        fresh: TempDir,
        shelf: &CachedBinary,
    ) -> Result<ServerBinary, LocalRedisError> {
        let target = self.folder.join(shelf.name);
        let doing = || format!("keeping {}", target.display());
        if target.exists() {
            // It is unusable. It is moved atomically too, since another process may be checking it.
            let away = self.empty_folder()?;
            fs::rename(&target, away.path().join("unusable"))
                .map_err(LocalRedisError::io(doing()))?;
        }
        fs::rename(fresh.keep(), &target).map_err(LocalRedisError::io(doing()))?;
        shelf
            .check(&target)
            .map_err(|reason| LocalRedisError::Unusable {
                path: target,
                reason,
            })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn fill(folder: &Path, line: &str) {
        fs::create_dir_all(folder.join("bin")).unwrap();
        let program = folder.join("bin/redis-server");
        fs::write(&program, format!("#!/bin/sh\necho '{line}'\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_kept_server_is_found_and_an_unusable_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BinaryCache::new(folder.path());
        let shelf = CachedBinary::recent();
        assert_eq!(cache.find(&shelf), None);
        fill(&folder.path().join("recent"), "broken");
        assert_eq!(cache.find(&shelf), None);

        let fresh = cache.empty_folder().unwrap();
        fill(fresh.path(), "Redis server v=7.2.4 sha=0");
        let kept = cache.store(fresh, &shelf).unwrap();
        assert_eq!(cache.find(&shelf), Some(kept));
        let names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["recent"]);
    }

    #[test]
    fn each_entry_accepts_only_its_versions() {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path(), "Redis server v=6.2.14 sha=0");
        assert!(CachedBinary::old().check(folder.path()).is_ok());
        assert_eq!(
            CachedBinary::recent().check(folder.path()),
            Err("Redis 6.2.14 is older than 7.0".to_owned())
        );
        fill(folder.path(), "Redis server v=7.0.15 sha=0");
        assert_eq!(
            CachedBinary::old().check(folder.path()),
            Err("Redis 7.0.15 is not older than 7.0".to_owned())
        );
    }

    #[test]
    fn the_lock_admits_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BinaryCache::new(folder.path());
        let held = cache.lock(&mut |_| {}).unwrap();
        let (sender, told_rx) = std::sync::mpsc::channel();
        let other = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut said = 0;
                let say = &mut |_: &str| {
                    said += 1;
                    sender.send(()).unwrap();
                };
                let _lock = cache.lock(say).unwrap();
                said
            });
            told_rx.recv().unwrap();
            drop(held);
            waiting.join().unwrap()
        });
        assert_eq!(other, 1);
    }
}
