//! Finds a server program on this machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_local_program::{FailedSource, command};

use crate::error::LocalRedisError;
use crate::version::{self, ServerKind, Version};

/// The environment variable that names the server program to use.
pub const SERVER_VARIABLE: &str = "TG_REDIS_SERVER";

/// The oldest major version that Tidegate runs on.
pub const OLDEST_MAJOR: u32 = 7;

/// Accepted names of a server program.
pub(crate) const PROGRAM_NAMES: [&str; 2] = ["redis-server", "valkey-server"];

const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// A server program that has been run once, to read its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerBinary {
    path: PathBuf,
    libraries: Option<PathBuf>,
    flavour: ServerKind,
    version: Version,
}

impl ServerBinary {
    /// Inspects the program at `path`. Accepts any version.
    ///
    /// # Errors
    /// [`LocalRedisError::Unusable`] if it does not run, or is neither a Redis nor a Valkey server.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, LocalRedisError> {
        let path = path.into();
        Self::inspect(&path, None).map_err(|reason| LocalRedisError::Unusable { path, reason })
    }

    pub(crate) fn inspect(path: &Path, libraries: Option<&Path>) -> Result<Self, String> {
        let mut version_command = program(path, libraries);
        let line = command::run(version_command.arg("--version"), VERSION_LIMIT)?;
        let Some((flavour, version)) = version::parse(&line) else {
            return Err(format!(
                "not a Redis server; its version is {:?}",
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

    /// The path of the program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Redis or Valkey.
    #[must_use]
    pub fn flavour(&self) -> ServerKind {
        self.flavour
    }

    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether Tidegate runs on this version.
    #[must_use]
    pub fn is_recent(&self) -> bool {
        self.version.major >= OLDEST_MAJOR
    }

    /// Whether it was built with TLS. Searches the binary for the name of a TLS setting, which only such a build
    /// contains.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        const SETTING: &[u8] = b"tls-auth-clients";
        std::fs::read(&self.path)
            .is_ok_and(|bytes| bytes.windows(SETTING.len()).any(|bytes| bytes == SETTING))
    }

    pub(crate) fn command(&self) -> Command {
        program(&self.path, self.libraries.as_deref())
    }

    /// Like [`Self::command`], but SIGXFSZ is ignored: a write beyond the file size limit fails instead of
    /// ending the process. An ignored signal stays ignored over exec.
    pub(crate) fn command_ignoring_sigxfsz(&self) -> Command {
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

/// Finds a server of version 7.0 or newer: the server that `TG_REDIS_SERVER` names, else the first suitable
/// `redis-server` or `valkey-server` on PATH. Returns `None` if there is none.
///
/// # Errors
/// [`LocalRedisError::Unusable`] if `TG_REDIS_SERVER` names an unsuitable program. There is no fallback then.
pub fn locate() -> Result<Option<ServerBinary>, LocalRedisError> {
    Ok(search()?.ok())
}

/// Like [`locate`], with the reason if nothing was found.
pub(crate) fn search() -> Result<Result<ServerBinary, FailedSource>, LocalRedisError> {
    match std::env::var_os(SERVER_VARIABLE).filter(|value| !value.is_empty()) {
        Some(path) => from_variable(PathBuf::from(path)).map(Ok),
        None => Ok(on_path().map_err(|reason| FailedSource::new("PATH", &reason))),
    }
}

fn from_variable(path: PathBuf) -> Result<ServerBinary, LocalRedisError> {
    ServerBinary::inspect(&path, None)
        .and_then(ServerBinary::require_recent)
        .map_err(|reason| LocalRedisError::Unusable {
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

    fn program_that_prints(folder: &Path, line: &str) -> PathBuf {
        let path = folder.join("redis-server");
        fs::write(&path, format!("#!/bin/sh\necho '{line}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn the_version_of_a_program_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = program_that_prints(folder.path(), "Valkey server v=8.1.8 sha=0");
        let binary = ServerBinary::at(&path).unwrap();
        assert_eq!(binary.flavour(), ServerKind::Valkey);
        assert!(binary.is_recent());
        assert_eq!(
            binary.to_string(),
            format!("Valkey 8.1.8 ({})", path.display())
        );
    }

    #[test]
    fn an_old_or_foreign_program_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = program_that_prints(folder.path(), "Redis server v=6.2.14 sha=0");
        let error = from_variable(path).unwrap_err().to_string();
        assert!(
            error.contains("Redis 6.2.14 is older than 7.0 (named by TG_REDIS_SERVER)"),
            "{error}"
        );
        let path = program_that_prints(folder.path(), "hello");
        let error = ServerBinary::at(path).unwrap_err().to_string();
        assert!(
            error.ends_with("not a Redis server; its version is \"hello\""),
            "{error}"
        );
    }
}
