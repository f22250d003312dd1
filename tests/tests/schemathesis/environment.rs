//! Schemathesis in a virtual environment of Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_testkit::print_figure;

const REQUIREMENTS: &str = include_str!("requirements.txt");
/// What an environment has once it is complete: the requirements that it was made for.
const INSTALLED: &str = "installed.txt";

/// A virtual environment of Python with Schemathesis.
#[derive(Debug)]
pub(crate) struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Returns the environment in `target/schemathesis`. Makes it if it does not exist, is not complete or is for other
    /// versions, for which it needs Python and PyPI.
    ///
    /// # Panics
    /// If that fails. The message says what is missing.
    pub(crate) fn install() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let environment = Self {
            folder: root.join("target/schemathesis"),
        };
        let marker = environment.folder.join(INSTALLED);
        if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == REQUIREMENTS) {
            return environment;
        }
        print_figure("installing Schemathesis from PyPI in target/schemathesis");
        let _ = std::fs::remove_dir_all(&environment.folder);
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(&environment.folder);
        succeed(
            venv,
            "this suite needs Python 3.10 or later with its module venv (Debian: apt-get install python3 python3-venv); \
             `cargo xtask test --quick` runs without it",
        );
        let mut pip = Command::new(environment.folder.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .arg("--requirement")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis/requirements.txt"));
        succeed(
            pip,
            "this suite installs Schemathesis from PyPI, which must be reachable once",
        );
        std::fs::write(&marker, REQUIREMENTS).unwrap();
        environment
    }

    /// A folder for files that Schemathesis leaves behind.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.folder.join("bin/schemathesis")
    }
}

/// Runs a command.
///
/// # Panics
/// If it does not succeed.
fn succeed(mut command: Command, needs: &str) {
    let output = match command.output() {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    panic!("{needs}\n{command:?} failed: {output}");
}
