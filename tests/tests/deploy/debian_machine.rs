//! A copy of this machine in which packages are installed. Everything that is written in it is in memory and is gone at
//! the end: this machine stays unchanged.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_local_program::{ProgramProcess, command, log_tail};

const START_LIMIT: Duration = Duration::from_secs(20);
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Where the folder with the packages is in the machine.
pub(crate) const PACKAGES: &str = "/mnt/packages";
/// What dpkg and its scripts expect. Nothing of the environment of the tests reaches the machine.
const ENVIRONMENT: [&str; 4] = [
    "-i",
    "DEBIAN_FRONTEND=noninteractive",
    "LC_ALL=C",
    "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
];
/// Mounts the copy, in a mount namespace that ends with this process. Its /run is empty, so no systemd is found. Images
/// of containers may leave out documentation when they install packages; the copy does not.
const MOUNT: &str = r#"
set -e
mount -t tmpfs -o mode=0755 tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/machine"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/machine"
mount --rbind /proc "$1/machine/proc"
mount --bind /dev "$1/machine/dev"
mount -t tmpfs -o mode=0755 tmpfs "$1/machine/run"
mount -t tmpfs -o mode=1777 tmpfs "$1/machine/tmp"
rm -f "$1"/machine/etc/dpkg/dpkg.cfg.d/*
mkdir -p "$1/machine$3"
mount --bind "$2" "$1/machine$3"
echo mounted
exec sleep 900
"#;

/// A copy of this machine.
pub(crate) struct DebianMachine {
    holder: ProgramProcess,
    folder: TempDir,
}

impl DebianMachine {
    /// Returns what is missing for a copy of this machine, and what to do about it.
    pub(crate) fn missing() -> Option<String> {
        let programs = [
            ("dpkg", "it needs Debian or Ubuntu"),
            ("dpkg-deb", "it needs Debian or Ubuntu"),
            ("adduser", "run: apt-get install adduser"),
            ("unshare", "run: apt-get install util-linux"),
        ];
        let on_path =
            |name| command::is_on_path(name) || Path::new("/usr/sbin").join(name).exists();
        let missing = programs.iter().find(|(name, _)| !on_path(name));
        if let Some((name, remedy)) = missing {
            return Some(format!("{name} not found; {remedy}"));
        }
        let is_root = rustix::process::geteuid().is_root();
        (!is_root).then(|| "packages are installed as root; run the tests as root".to_owned())
    }

    /// Makes a copy of this machine, with a folder of packages at [`PACKAGES`].
    ///
    /// # Panics
    /// If the copy cannot be mounted.
    pub(crate) fn start(packages: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mounts = folder.path().join("mounts");
        std::fs::create_dir(&mounts).unwrap();
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            MOUNT,
            "sh",
        ]);
        unshare.arg(&mounts).arg(packages).arg(PACKAGES);
        let mut holder = ProgramProcess::start(&mut unshare, &log).unwrap();
        let is_mounted = || match std::fs::read_to_string(&log).unwrap() {
            message if message.contains("mounted") => Ok(()),
            message => Err(message),
        };
        let mounted = holder.wait_until(START_LIMIT, is_mounted);
        mounted.unwrap_or_else(|error| {
            let message = log_tail(&log, 0);
            panic!("no copy of this machine can be mounted (overlay in a mount namespace): {error}\n{message}")
        });
        Self { holder, folder }
    }

    /// A command in the machine, as root.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holder.pid().to_string();
        command.args(["--target", &holder, "--mount", "chroot"]);
        command.arg(self.folder.path().join("mounts/machine"));
        command.arg("env").args(ENVIRONMENT).args(words);
        command
    }

    /// Runs a command in the machine to its end, and returns what it prints.
    ///
    /// # Errors
    /// What it prints as its error.
    pub(crate) fn try_run(&self, words: &[&str]) -> Result<String, String> {
        command::run(&mut self.command(words), RUN_LIMIT)
    }

    /// Like [`Self::try_run`], for a command that must succeed.
    ///
    /// # Panics
    /// If it fails.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let ran = self.try_run(words);
        ran.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.try_run(&["test", "-e", path]).is_ok()
    }

    pub(crate) fn read(&self, path: &str) -> String {
        self.run(&["cat", path])
    }

    /// Replaces texts in a file, as an administrator does.
    ///
    /// # Panics
    /// If a text is not in the file.
    pub(crate) fn edit(&self, path: &str, changes: &[(&str, String)]) {
        for (from, to) in changes {
            assert!(self.read(path).contains(from), "{path} has no {from}");
            self.run(&["sed", "--in-place", &format!("s#{from}#{to}#"), path]);
        }
    }

    /// Owner, group and mode of a file.
    pub(crate) fn rights(&self, path: &str) -> String {
        let rights = self.run(&["stat", "--format=%U %G %a", path]);
        rights.trim().to_owned()
    }

    /// Starts the daemon of a package without systemd: the command and the user are those of its unit.
    ///
    /// # Panics
    /// If it does not start, or the unit has no command.
    pub(crate) fn start_unit(&self, package: &str) -> ProgramProcess {
        let unit = self.read(&format!("/usr/lib/systemd/system/{package}.service"));
        let value = |key: &str| {
            let mut values = unit.lines().filter_map(|line| line.strip_prefix(key));
            values
                .next()
                .unwrap_or_else(|| panic!("no {key} in {unit}"))
        };
        let user = format!("--reuid={}", value("User="));
        let group = format!("--regid={}", value("Group="));
        let mut words = vec!["setpriv", &user, &group, "--init-groups", "--"];
        words.extend(value("ExecStart=").split_whitespace());
        ProgramProcess::start(&mut self.command(&words), &self.log(package)).unwrap()
    }

    /// The log of a daemon that was started by [`Self::start_unit`].
    pub(crate) fn log(&self, package: &str) -> PathBuf {
        self.folder.path().join(format!("{package}.log"))
    }
}
