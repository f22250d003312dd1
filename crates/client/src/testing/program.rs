//! Finds the programs.

use std::env;
use std::path::{Path, PathBuf};

use super::error::TestingError;

/// A program that a server consists of.
#[derive(Debug, Clone, Copy)]
pub(super) struct TestProgram {
    pub(super) name: &'static str,
    variable: &'static str,
    remedy: &'static str,
}

pub(super) const API: TestProgram = TestProgram {
    name: "tidegate-api",
    variable: "TG_API",
    remedy: "build it in the sources of Tidegate with `cargo build --release`",
};
pub(super) const PUMP: TestProgram = TestProgram {
    name: "tidegate-pumpd",
    variable: "TG_PUMPD",
    remedy: "build it in the sources of Tidegate with `cargo build --release`",
};
pub(super) const REDIS: TestProgram = TestProgram {
    name: "redis-server",
    variable: "TG_REDIS_SERVER",
    remedy: "install the package redis-server or valkey-server",
};

impl TestProgram {
    /// The path of the program: this one, if there is one.
    pub(super) fn find(self, chosen: Option<PathBuf>) -> Result<PathBuf, TestingError> {
        let chosen = chosen.or_else(|| env::var_os(self.variable).map(PathBuf::from));
        if let Some(path) = chosen {
            return match path.is_file() {
                true => Ok(path),
                false => Err(self.missing(&format!("{} is not a file", path.display()))),
            };
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = built_beside_this_test()
            .into_iter()
            .chain(env::split_paths(&path));
        let found = folders
            .map(|folder| folder.join(self.name))
            .find(|path| path.is_file());
        found.ok_or_else(|| self.missing("it is not in PATH"))
    }

    fn missing(self, reason: &str) -> TestingError {
        let Self {
            name,
            variable,
            remedy,
        } = self;
        TestingError::new(format!(
            "no {name}: {reason}; {remedy}, and set {variable} to its path"
        ))
    }
}

/// The folder with the programs of the build that the running test is of: tests are in `deps` below it.
fn built_beside_this_test() -> Option<PathBuf> {
    let running = env::current_exe().ok()?;
    let folder = running.parent()?;
    let is_below = folder.ends_with("deps") || folder.ends_with("examples");
    let folder = if is_below { folder.parent()? } else { folder };
    Some(Path::to_path_buf(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_named_with_the_remedy() {
        let program = TestProgram {
            name: "no-such-program",
            variable: "NO_SUCH_VARIABLE",
            remedy: "install it",
        };
        let error = program.find(None).unwrap_err().to_string();
        let chosen = program
            .find(Some("/no/such/file".into()))
            .unwrap_err()
            .to_string();
        assert!(
            chosen.contains("/no/such/file is not a file; install it"),
            "{chosen}"
        );
        assert_eq!(
            error,
            "no no-such-program: it is not in PATH; install it, and set NO_SUCH_VARIABLE to its path"
        );
    }
}
