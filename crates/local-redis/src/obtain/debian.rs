//! Debian's (and Ubuntu's) packages: downloaded, verified by apt, unpacked, never installed. No root is needed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command;

const LISTS_LIMIT: Duration = Duration::from_secs(120);
const RESOLVE_LIMIT: Duration = Duration::from_secs(30);
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(120);
const UNPACK_LIMIT: Duration = Duration::from_secs(30);

/// Puts `bin/redis-server` into `folder`, and the libraries that this machine lacks into `lib/`.
pub(crate) fn fetch(folder: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), String> {
    let work = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
    if let Err(first) = download(work.path(), &[]) {
        if !command::is_on_path("apt-get") {
            return Err(first);
        }
        // The package lists of the machine are missing or outdated. Fetch our own into the work folder; those of the
        // // machine stay unchanged.
        progress("fetching the package lists");
        let own = private_lists(work.path())?;
        let mut update = apt(work.path(), &own);
        // An unreachable source may not be needed: report this failure only if the next step fails too.
        update.args(["-qq", "-o", "APT::Update::Error-Mode=any", "update"]);
        let updated = command::run(&mut update, LISTS_LIMIT);
        progress("downloading redis-server and the libraries it needs");
        download(work.path(), &own).map_err(|second| updated.err().unwrap_or(second))?;
    }
    let tree = unpack(work.path())?;
    copy_server(&tree, folder).map_err(|error| format!("unpacking: {error}"))
}

fn apt(work: &Path, options: &[String]) -> Command {
    let mut command = Command::new("apt-get");
    command.current_dir(work).env("LC_ALL", "C").args(options);
    command.args([
        "-o",
        "Acquire::Retries=1",
        "-o",
        "Acquire::http::Timeout=20",
        "-o",
        "Acquire::https::Timeout=20",
    ]);
    command
}

/// Creates folders below `work`, and returns options that make apt keep its lists and downloads there.
fn private_lists(work: &Path) -> Result<Vec<String>, String> {
    let lists = work.join("lists");
    let cache = work.join("cache");
    for folder in [
        lists.join("partial"),
        cache.join("archives").join("partial"),
    ] {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let option =
        |name: &str, folder: &Path| ["-o".to_owned(), format!("{name}={}", folder.display())];
    Ok([
        option("Dir::State::lists", &lists),
        option("Dir::Cache", &cache),
    ]
    .concat())
}

fn download(work: &Path, options: &[String]) -> Result<(), String> {
    let plan = command::run(
        apt(work, options).args([
            "--simulate",
            "--no-install-recommends",
            "install",
            "redis-server",
        ]),
        RESOLVE_LIMIT,
    )?;
    command::run(
        apt(work, options)
            .args(["-qq", "download"])
            .args(packages(&plan)),
        DOWNLOAD_LIMIT,
    )?;
    Ok(())
}

/// Returns the packages that apt would install, from its lines `Inst name (version …)`. They include the libraries
/// that the machine lacks. The two packages with the server are always included, since apt does not list installed
/// ones.
fn packages(plan: &str) -> BTreeSet<String> {
    let named = plan
        .lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next());
    named
        .chain(["redis-server", "redis-tools"])
        .map(str::to_owned)
        .collect()
}

fn unpack(work: &Path) -> Result<PathBuf, String> {
    let tree = work.join("tree");
    for entry in fs::read_dir(work)
        .map_err(|error| error.to_string())?
        .flatten()
    {
        if entry
            .path()
            .extension()
            .is_some_and(|extension| extension == "deb")
        {
            let mut unpack = Command::new("dpkg-deb");
            command::run(
                unpack.arg("--extract").arg(entry.path()).arg(&tree),
                UNPACK_LIMIT,
            )?;
        }
    }
    Ok(tree)
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
    let lib = folder.join("lib");
    fs::create_dir_all(&lib)?;
    copy_libraries(&tree.join("usr/lib"), &lib)?;
    copy_libraries(&tree.join("lib"), &lib)
}

fn copy_libraries(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let is_library = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().contains(".so"));
        if path.is_dir() {
            copy_libraries(&path, to)?;
        } else if is_library && path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_names_the_packages() {
        let plan = "Reading package lists...\nInst liblzf1 (3.6-3 Debian:12 [amd64])\nInst redis-tools (5:7.0.15 x)\n\
                    Conf liblzf1 (3.6-3 Debian:12 [amd64])\n";
        let names: Vec<_> = packages(plan).into_iter().collect();
        assert_eq!(names, ["liblzf1", "redis-server", "redis-tools"]);
    }

    #[test]
    fn the_server_and_its_libraries_are_copied_as_regular_files() {
        let work = tempfile::tempdir().unwrap();
        let tree = work.path().join("tree");
        fs::create_dir_all(tree.join("usr/bin")).unwrap();
        fs::create_dir_all(tree.join("usr/lib/some-machine")).unwrap();
        fs::write(tree.join("usr/bin/redis-check-rdb"), "server").unwrap();
        std::os::unix::fs::symlink("redis-check-rdb", tree.join("usr/bin/redis-server")).unwrap();
        fs::write(tree.join("usr/lib/some-machine/libx.so.1.5"), "library").unwrap();
        std::os::unix::fs::symlink("libx.so.1.5", tree.join("usr/lib/some-machine/libx.so.1"))
            .unwrap();
        copy_server(&tree, work.path()).unwrap();
        fs::remove_dir_all(&tree).unwrap();
        assert_eq!(
            fs::read_to_string(work.path().join("bin/redis-server")).unwrap(),
            "server"
        );
        assert_eq!(
            fs::read_to_string(work.path().join("lib/libx.so.1")).unwrap(),
            "library"
        );
    }
}
