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

/// Packages to download, with the dependencies that this machine lacks.
#[derive(Debug, Clone, Copy)]
pub struct DebianPackages<'a> {
    /// The package that is wanted.
    pub wanted: &'a str,
    /// Packages that are downloaded even if they are installed: apt does not list installed ones.
    pub always: &'a [&'a str],
}

impl DebianPackages<'_> {
    /// Downloads the packages and unpacks them into a folder below `work`, which it returns: it has `usr/…` and perhaps
    /// `lib/…`. Uses the package lists of the machine, or fetches new ones into `work`.
    ///
    /// # Errors
    /// One line: the first program that failed, and why.
    pub fn unpack(&self, work: &Path, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, String> {
        if let Err(first) = self.download(work, &[]) {
            if !command::is_on_path("apt-get") {
                return Err(first);
            }
            // The package lists of the machine are missing or outdated. They stay unchanged.
            progress("fetching the package lists");
            let own = private_lists(work)?;
            let mut update = apt(work, &own);
            // An unreachable source may not be needed: report this failure only if the next step fails too.
            update.args(["-qq", "-o", "APT::Update::Error-Mode=any", "update"]);
            let updated = command::run(&mut update, LISTS_LIMIT);
            progress(&format!("downloading {} and what it needs", self.wanted));
            self.download(work, &own)
                .map_err(|second| updated.err().unwrap_or(second))?;
        }
        unpack(work)
    }

    fn download(&self, work: &Path, options: &[String]) -> Result<(), String> {
        let plan = command::run(
            apt(work, options).args([
                "--simulate",
                "--no-install-recommends",
                "install",
                self.wanted,
            ]),
            RESOLVE_LIMIT,
        )?;
        command::run(
            apt(work, options)
                .args(["-qq", "download"])
                .args(self.names(&plan)),
            DOWNLOAD_LIMIT,
        )?;
        Ok(())
    }

    /// Returns the packages that apt would install, from its lines `Inst name (version …)`. They include the libraries
    /// that the machine lacks.
    fn names(&self, plan: &str) -> BTreeSet<String> {
        let named = plan
            .lines()
            .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next());
        named
            .chain([self.wanted])
            .chain(self.always.iter().copied())
            .map(str::to_owned)
            .collect()
    }

    /// Copies the libraries of an unpacked tree into one folder. Copies follow links, so every file in it is a regular
    /// one.
    ///
    /// # Errors
    /// A file cannot be copied.
    pub fn copy_libraries(tree: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        copy_libraries(&tree.join("usr/lib"), to)?;
        copy_libraries(&tree.join("lib"), to)
    }
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
        let packages = DebianPackages {
            wanted: "redis-server",
            always: &["redis-tools"],
        };
        let names: Vec<_> = packages.names(plan).into_iter().collect();
        assert_eq!(names, ["liblzf1", "redis-server", "redis-tools"]);
    }

    #[test]
    fn libraries_are_copied_as_regular_files() {
        let work = tempfile::tempdir().unwrap();
        let tree = work.path().join("tree");
        fs::create_dir_all(tree.join("usr/lib/some-machine")).unwrap();
        fs::write(tree.join("usr/lib/some-machine/libx.so.1.5"), "library").unwrap();
        std::os::unix::fs::symlink("libx.so.1.5", tree.join("usr/lib/some-machine/libx.so.1"))
            .unwrap();
        let lib = work.path().join("lib");
        DebianPackages::copy_libraries(&tree, &lib).unwrap();
        let copied = lib.join("libx.so.1");
        assert!(!copied.is_symlink());
        assert_eq!(fs::read_to_string(copied).unwrap(), "library");
    }
}
