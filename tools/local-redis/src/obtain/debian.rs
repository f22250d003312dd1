//! The server in the packages of Debian and Ubuntu.

use std::fs;
use std::io;
use std::path::Path;

use tidegate_local_program::DebianPackages;

const PACKAGES: DebianPackages<'_> = DebianPackages {
    wanted: "redis-server",
    always: &["redis-tools"],
};

/// Puts `bin/redis-server` into `folder`, and the libraries that this machine lacks into `lib/`.
pub(crate) fn fetch(folder: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), String> {
    let work = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
    let tree = PACKAGES.unpack(work.path(), progress)?;
    copy_server(&tree, folder).map_err(|error| format!("unpacking: {error}"))
}

/// Copies the server and its libraries. `redis-server` is a link to `redis-check-rdb` in another package: one program
/// that behaves according to its name. Copies follow links, so every file here is a regular one.
fn copy_server(tree: &Path, folder: &Path) -> io::Result<()> {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin)?;
    let server = tree.join("usr/bin/redis-server");
    let server = if server.is_file() {
        server
    } else {
        tree.join("usr/bin/redis-check-rdb")
    };
    fs::copy(server, bin.join("redis-server"))?;
    DebianPackages::copy_libraries(tree, &folder.join("lib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_copied_as_a_regular_file() {
        let work = tempfile::tempdir().unwrap();
        let tree = work.path().join("tree");
        fs::create_dir_all(tree.join("usr/bin")).unwrap();
        fs::write(tree.join("usr/bin/redis-check-rdb"), "server").unwrap();
        std::os::unix::fs::symlink("redis-check-rdb", tree.join("usr/bin/redis-server")).unwrap();
        copy_server(&tree, work.path()).unwrap();
        let copied = work.path().join("bin/redis-server");
        assert!(!copied.is_symlink());
        assert_eq!(fs::read_to_string(copied).unwrap(), "server");
    }
}
