//! The folder that keeps obtained servers. Callers in several processes share it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::error::Error;
use crate::file_lock::lock_within;
use crate::locate::{PROGRAM_NAMES, ServerBinary};

/// Longer than one caller needs for every route.
const LOCK_LIMIT: Duration = Duration::from_secs(600);

/// The cache folder. A server is a folder in it, with `bin/` and, where it needs them, libraries in `lib/`.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

/// A place in the cache, and what may lie there.
#[derive(Debug)]
pub(crate) struct Shelf {
    name: &'static str,
    pub(crate) wanted: &'static str,
    wants_recent: bool,
}

impl Shelf {
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

    /// Looks whether `folder` holds a server that runs here and is of the wanted age.
    pub(crate) fn accept(&self, folder: &Path) -> Result<ServerBinary, String> {
        let bin = folder.join("bin");
        let path = PROGRAM_NAMES
            .iter()
            .map(|name| bin.join(name))
            .find(|path| path.is_file());
        let path = path.ok_or_else(|| format!("it has no {}", PROGRAM_NAMES.join(" or ")))?;
        let libraries = Some(folder.join("lib")).filter(|lib| lib.is_dir());
        let binary = ServerBinary::inspect(&path, libraries.as_deref())?;
        if self.wants_recent {
            return binary.require_recent();
        }
        if binary.is_recent() {
            return Err(format!(
                "{} {} is not old",
                binary.flavour(),
                binary.version()
            ));
        }
        Ok(binary)
    }
}

impl Cache {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The server on this shelf, if it (still) runs.
    pub(crate) fn find(&self, shelf: &Shelf) -> Option<ServerBinary> {
        shelf.accept(&self.folder.join(shelf.name)).ok()
    }

    /// Waits until no other process fetches. The lock ends with the returned file, or with the process.
    pub(crate) fn lock(&self, progress: &mut dyn FnMut(&str)) -> Result<File, Error> {
        let path = self.folder.join("lock");
        let doing = || format!("locking {}", path.display());
        fs::create_dir_all(&self.folder).map_err(Error::io(doing()))?;
        let waiting = || progress("waiting for another process that obtains Redis");
        let locked = lock_within(&path, LOCK_LIMIT, waiting)?;
        locked.ok_or_else(|| Error::io(doing())(rustix::io::Errno::WOULDBLOCK.into()))
    }

    /// An empty folder on the same file system, removed unless it is kept.
    pub(crate) fn fresh_folder(&self) -> Result<TempDir, Error> {
        let doing = format!("creating a folder in {}", self.folder.display());
        tempfile::Builder::new()
            .prefix("fetch-")
            .tempdir_in(&self.folder)
            .map_err(Error::io(doing))
    }

    /// Puts a filled folder on its shelf in one step. The lock must be held.
    pub(crate) fn keep(&self, fresh: TempDir, shelf: &Shelf) -> Result<ServerBinary, Error> {
        let place = self.folder.join(shelf.name);
        let doing = || format!("keeping {}", place.display());
        if place.exists() {
            // It was found unusable. It leaves in one step too: somebody may be looking at it.
            let away = self.fresh_folder()?;
            fs::rename(&place, away.path().join("unusable")).map_err(Error::io(doing()))?;
        }
        fs::rename(fresh.keep(), &place).map_err(Error::io(doing()))?;
        shelf.accept(&place).map_err(|reason| Error::Unusable {
            path: place,
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
    fn what_is_kept_is_found_and_an_unusable_server_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let shelf = Shelf::recent();
        assert_eq!(cache.find(&shelf), None);
        fill(&folder.path().join("recent"), "broken");
        assert_eq!(cache.find(&shelf), None);

        let fresh = cache.fresh_folder().unwrap();
        fill(fresh.path(), "Redis server v=7.2.4 sha=0");
        let kept = cache.keep(fresh, &shelf).unwrap();
        assert_eq!(cache.find(&shelf), Some(kept));
        let names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["recent"]);
    }

    #[test]
    fn each_shelf_takes_its_age_only() {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path(), "Redis server v=6.2.14 sha=0");
        assert!(Shelf::old().accept(folder.path()).is_ok());
        assert_eq!(
            Shelf::recent().accept(folder.path()),
            Err("Redis 6.2.14 is older than 7.0".to_owned())
        );
        fill(folder.path(), "Redis server v=7.0.15 sha=0");
        assert_eq!(
            Shelf::old().accept(folder.path()),
            Err("Redis 7.0.15 is not old".to_owned())
        );
    }

    #[test]
    fn the_lock_admits_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let held = cache.lock(&mut |_| {}).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let other = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut said = 0;
                let say = &mut |_: &str| {
                    said += 1;
                    tell.send(()).unwrap();
                };
                let _lock = cache.lock(say).unwrap();
                said
            });
            told.recv().unwrap();
            drop(held);
            waiting.join().unwrap()
        });
        assert_eq!(other, 1);
    }
}
