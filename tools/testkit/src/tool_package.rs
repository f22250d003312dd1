//! Programs for tests, from Debian's packages: unpacked into `target`, not installed.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_local_program::{
    DebianPackages, DownloadSource, ProgramCache, ProgramEntry, command, workspace_cache,
};

use crate::seed::print_figure;

const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// A package of Debian with programs that tests run.
#[derive(Debug, Clone, Copy)]
pub struct ToolPackage {
    /// Its name.
    pub package: &'static str,
    /// A program below its root, with a flag that shows its version, which proves that it runs.
    pub probe: (&'static str, &'static str),
}

/// An unpacked package, with the libraries that the machine lacks.
#[derive(Debug, Clone)]
pub struct ToolFolder(PathBuf);

impl fmt::Display for ToolFolder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(out)
    }
}

impl ToolPackage {
    /// Returns the unpacked package. Blocks during a download.
    ///
    /// # Panics
    /// If it cannot be obtained; the message says why.
    #[must_use]
    pub fn obtain(&self) -> ToolFolder {
        let check = |folder: &Path| {
            let kept = ToolFolder(folder.to_owned());
            let mut probe = kept.command(self.probe.0);
            command::run(probe.arg(self.probe.1), VERSION_LIMIT).map(|_| kept)
        };
        let entry = ProgramEntry {
            name: self.package,
            wanted: self.package,
            check: &check,
        };
        let unpack = |folder: &Path, progress: &mut dyn FnMut(&str)| self.unpack(folder, progress);
        let sources: [DownloadSource<'_>; 1] = [("Debian packages", &unpack)];
        let cache = ProgramCache::new(&workspace_cache("tools"));
        let obtained = cache.obtain(&entry, Vec::new(), &sources, &mut print_figure);
        obtained.unwrap_or_else(|error| {
            panic!("{error}\nrun: apt-get update, then try again; it needs Debian or Ubuntu")
        })
    }

    fn unpack(&self, folder: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), String> {
        let work = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
        let packages = DebianPackages {
            wanted: self.package,
            always: &[],
        };
        let tree = packages.unpack(work.path(), progress)?;
        let lib = folder.join("lib");
        DebianPackages::copy_libraries(&tree, &lib).map_err(|error| error.to_string())?;
        fs::rename(tree.join("usr"), folder.join("usr")).map_err(|error| error.to_string())
    }
}

impl ToolFolder {
    /// The path of a file of the package.
    #[must_use]
    pub fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    /// Returns a command that runs a program of the package, with the libraries that were unpacked with it.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.0.join(program));
        command.env("LD_LIBRARY_PATH", self.0.join("lib"));
        command
    }
}
