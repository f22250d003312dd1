//! Programs that check or use files in `deploy`: from Debian's packages, unpacked into `target`, not installed.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_local_program::{
    DebianPackages, DownloadSource, ProgramCache, ProgramEntry, command, workspace_cache,
};
use tidegate_testkit::print_figure;

const VERSION_LIMIT: Duration = Duration::from_secs(20);
pub(crate) const TOOL_LIMIT: Duration = Duration::from_secs(60);

/// A package of Debian with the programs that tests run.
pub(crate) struct ToolPackage {
    package: &'static str,
    /// Shows the version, which proves that it runs.
    probe: (&'static str, &'static str),
}

pub(crate) const PROMETHEUS: ToolPackage = ToolPackage {
    package: "prometheus",
    probe: ("usr/bin/promtool", "--version"),
};
pub(crate) const HAPROXY: ToolPackage = ToolPackage {
    package: "haproxy",
    probe: ("usr/sbin/haproxy", "-v"),
};

/// An unpacked package.
pub(crate) struct ToolFolder(PathBuf);

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
    pub(crate) fn obtain(&self) -> ToolFolder {
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
    /// Returns a command that runs a program of the package, with the libraries that were unpacked with it.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.0.join(program));
        command.env("LD_LIBRARY_PATH", self.0.join("lib"));
        command
    }
}
