//! Finding a server program on this machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command;
use crate::error::{Error, Tried};
use crate::version::{self, Flavour, Version};

/// The environment variable that names the server program to use.
pub const SERVER_VARIABLE: &str = "TIDEGATE_REDIS_SERVER";

/// The oldest major version that Tidegate runs on.
pub const OLDEST_MAJOR: u32 = 7;

/// The names a server program may have.
pub(crate) const PROGRAM_NAMES: [&str; 2] = ["redis-server", "valkey-server"];

const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// A server program that was seen to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerBinary {
    path: PathBuf,
    libraries: Option<PathBuf>,
    flavour: Flavour,
    version: Version,
}

impl ServerBinary {
    /// The program at `path`, of whatever version.
    ///
    /// # Errors
    /// [`Error::Unusable`] if it does not run, or is neither a Redis nor a Valkey server.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        Self::inspect(&path, None).map_err(|reason| Error::Unusable { path, reason })
    }

    pub(crate) fn inspect(path: &Path, libraries: Option<&Path>) -> Result<Self, String> {
        let mut asked = program(path, libraries);
        let line = command::run(asked.arg("--version"), VERSION_LIMIT)?;
        let Some((flavour, version)) = version::parse(&line) else {
            return Err(format!(
                "it is not a Redis server; it says {:?}",
                line.trim()
            ));
        };
        Ok(Self {
            path: path.to_owned(),
            libraries: libraries.map(Path::to_owned),
            flavour,
            version,
        })
    }

    /// The program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Redis or Valkey.
    #[must_use]
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether Tidegate runs on this version.
    #[must_use]
    pub fn is_recent(&self) -> bool {
        self.version.major >= OLDEST_MAJOR
    }

    /// Whether it was built with TLS. Only such a program has the names of its settings in it.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        const SETTING: &[u8] = b"tls-auth-clients";
        std::fs::read(&self.path)
            .is_ok_and(|bytes| bytes.windows(SETTING.len()).any(|bytes| bytes == SETTING))
    }

    pub(crate) fn command(&self) -> Command {
        program(&self.path, self.libraries.as_deref())
    }

    /// The same, for a process that is not ended by SIGXFSZ but hears of a failed write. What is ignored before
    /// a program is started stays ignored.
    pub(crate) fn command_outliving_a_full_disk(&self) -> Command {
        let mut command = program(Path::new("sh"), self.libraries.as_deref());
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        command.arg(&self.path);
        command
    }

    pub(crate) fn require_recent(self) -> Result<Self, String> {
        if self.is_recent() {
            return Ok(self);
        }
        Err(format!(
            "{} {} is older than {OLDEST_MAJOR}.0",
            self.flavour, self.version
        ))
    }
}

impl fmt::Display for ServerBinary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} {} ({})",
            self.flavour,
            self.version,
            self.path.display()
        )
    }
}

/// Finds a server of version 7.0 or newer: the one named by `TIDEGATE_REDIS_SERVER`, else the first fitting
/// `redis-server` or `valkey-server` on PATH. `None` if there is none.
///
/// # Errors
/// [`Error::Unusable`] if `TIDEGATE_REDIS_SERVER` names a program that does not fit: it is an order, not a hint.
pub fn locate() -> Result<Option<ServerBinary>, Error> {
    Ok(look_around()?.ok())
}

/// [`locate`], with the reason for finding nothing.
pub(crate) fn look_around() -> Result<Result<ServerBinary, Tried>, Error> {
    match std::env::var_os(SERVER_VARIABLE).filter(|value| !value.is_empty()) {
        Some(path) => ordered(PathBuf::from(path)).map(Ok),
        None => Ok(on_path().map_err(|reason| Tried::new("PATH", &reason))),
    }
}

fn ordered(path: PathBuf) -> Result<ServerBinary, Error> {
    ServerBinary::inspect(&path, None)
        .and_then(ServerBinary::require_recent)
        .map_err(|reason| Error::Unusable {
            reason: format!("{reason} (named by {SERVER_VARIABLE})"),
            path,
        })
}

fn on_path() -> Result<ServerBinary, String> {
    let mut reasons = Vec::new();
    for path in PROGRAM_NAMES.into_iter().flat_map(command::on_path) {
        match ServerBinary::inspect(&path, None).and_then(ServerBinary::require_recent) {
            Ok(found) => return Ok(found),
            Err(reason) => reasons.push(format!("{}: {reason}", path.display())),
        }
    }
    if reasons.is_empty() {
        return Err(format!("no {}", PROGRAM_NAMES.join(" or ")));
    }
    Err(reasons.join("; "))
}

fn program(path: &Path, libraries: Option<&Path>) -> Command {
    let mut command = Command::new(path);
    if let Some(folder) = libraries {
        command.env("LD_LIBRARY_PATH", folder);
    }
    command
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program_that_says(folder: &Path, line: &str) -> PathBuf {
        let path = folder.join("redis-server");
        fs::write(&path, format!("#!/bin/sh\necho '{line}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_program_is_asked_for_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = program_that_says(folder.path(), "Valkey server v=8.1.8 sha=0");
        let binary = ServerBinary::at(&path).unwrap();
        assert_eq!(binary.flavour(), Flavour::Valkey);
        assert!(binary.is_recent());
        assert_eq!(
            binary.to_string(),
            format!("Valkey 8.1.8 ({})", path.display())
        );
    }

    #[test]
    fn an_old_or_foreign_program_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = program_that_says(folder.path(), "Redis server v=6.2.14 sha=0");
        let error = ordered(path).unwrap_err().to_string();
        assert!(
            error.contains("Redis 6.2.14 is older than 7.0 (named by TIDEGATE_REDIS_SERVER)"),
            "{error}"
        );
        let path = program_that_says(folder.path(), "hello");
        let error = ServerBinary::at(path).unwrap_err().to_string();
        assert!(
            error.ends_with("it is not a Redis server; it says \"hello\""),
            "{error}"
        );
    }
}
