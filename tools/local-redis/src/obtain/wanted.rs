//! The servers that are obtained, and which ones are accepted.

use std::path::Path;

use tidegate_local_program::ProgramEntry;

use crate::locate::{OLDEST_MAJOR, PROGRAM_NAMES, ServerBinary};

/// A kind of server: its folder in the cache has `bin/` and, if needed, libraries in `lib/`.
pub(crate) struct WantedServer {
    name: &'static str,
    pub(crate) wanted: &'static str,
    check: fn(&Path) -> Result<ServerBinary, String>,
}

impl WantedServer {
    pub(crate) const fn recent() -> Self {
        Self {
            name: "recent",
            wanted: "Redis 7.0 or newer",
            check: check_recent,
        }
    }

    pub(crate) const fn old() -> Self {
        Self {
            name: "old",
            wanted: "Redis 6.2",
            check: check_old,
        }
    }

    pub(crate) const fn valkey() -> Self {
        Self {
            name: "valkey",
            wanted: "Valkey 8",
            check: check_recent,
        }
    }

    pub(crate) const fn entry(&self) -> ProgramEntry<'_, ServerBinary> {
        ProgramEntry {
            name: self.name,
            wanted: self.wanted,
            check: &self.check,
        }
    }
}

/// The server in `folder`, if it runs on this machine.
fn inspect(folder: &Path) -> Result<ServerBinary, String> {
    let bin = folder.join("bin");
    let path = PROGRAM_NAMES
        .iter()
        .map(|name| bin.join(name))
        .find(|path| path.is_file());
    let path = path.ok_or_else(|| format!("no {} in it", PROGRAM_NAMES.join(" or ")))?;
    let libraries = Some(folder.join("lib")).filter(|lib| lib.is_dir());
    ServerBinary::inspect(&path, libraries.as_deref())
}

fn check_recent(folder: &Path) -> Result<ServerBinary, String> {
    inspect(folder)?.require_recent()
}

fn check_old(folder: &Path) -> Result<ServerBinary, String> {
    let binary = inspect(folder)?;
    if binary.is_recent() {
        return Err(format!(
            "{} {} is not older than {OLDEST_MAJOR}.0",
            binary.flavour(),
            binary.version()
        ));
    }
    Ok(binary)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn fill(folder: &Path, line: &str) {
        fs::create_dir_all(folder.join("bin")).unwrap();
        let program = folder.join("bin/redis-server");
        fs::write(&program, format!("#!/bin/sh\necho '{line}'\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn each_kind_accepts_only_its_versions() {
        let folder = tempfile::tempdir().unwrap();
        let check = |wanted: WantedServer| (wanted.check)(folder.path()).map(|_| ());
        fill(folder.path(), "Redis server v=6.2.14 sha=0");
        assert_eq!(check(WantedServer::old()), Ok(()));
        let refused = Err("Redis 6.2.14 is older than 7.0".to_owned());
        assert_eq!(check(WantedServer::recent()), refused);
        fill(folder.path(), "Redis server v=7.0.15 sha=0");
        let refused = Err("Redis 7.0.15 is not older than 7.0".to_owned());
        assert_eq!(check(WantedServer::old()), refused);
    }
}
