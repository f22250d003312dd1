//! What a server is started with.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::locate::ServerBinary;

const DEFAULT_START_LIMIT: Duration = Duration::from_secs(20);

/// How to start a [`RedisServer`](crate::RedisServer).
///
/// The default is a server on a free port of 127.0.0.1 with a temporary data folder, which writes an append-only file
/// (`appendfsync everysec`), never evicts, and has the compact encodings of `deploy/redis/redis.conf`.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) binary: ServerBinary,
    pub(crate) data_folder: Option<PathBuf>,
    pub(crate) port: Option<u16>,
    pub(crate) start_limit: Duration,
    /// Whether the program is to be a sentinel, which stores nothing and watches other servers.
    pub(crate) is_sentinel: bool,
    pub(crate) outlives_a_full_disk: bool,
    pub(crate) environment: Vec<(String, String)>,
    settings: Vec<(String, String)>,
}

impl Options {
    /// The defaults, with this server program.
    #[must_use]
    pub fn new(binary: ServerBinary) -> Self {
        Self {
            binary,
            data_folder: None,
            port: None,
            start_limit: DEFAULT_START_LIMIT,
            is_sentinel: false,
            outlives_a_full_disk: false,
            environment: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// A Redis Sentinel instead, run by the same program. What it watches is told by
    /// [`setting`](Self::setting)s, such as `("sentinel", "monitor NAME 127.0.0.1 6379 2")`. A sentinel writes what it
    /// learns into its configuration, which therefore stays over restarts.
    #[must_use]
    pub fn sentinel(binary: ServerBinary) -> Self {
        Self {
            is_sentinel: true,
            ..Self::new(binary)
        }
    }

    /// A folder for data, configuration and log; it is created, and stays. Default: a temporary one, which is removed.
    #[must_use]
    pub fn data_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_folder = Some(folder.into());
        self
    }

    /// The port on 127.0.0.1. Default: a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// How long a start may take, loading data included. Default: 20 s.
    #[must_use]
    pub fn start_limit(mut self, limit: Duration) -> Self {
        self.start_limit = limit;
        self
    }

    /// A limit on the size of its files (`RLIMIT_FSIZE`) is to it what a full disk is: writes fail. Otherwise the
    /// signal that comes with such a failure (SIGXFSZ) would end it.
    #[must_use]
    pub fn outlives_a_full_disk(mut self) -> Self {
        self.outlives_a_full_disk = true;
        self
    }

    /// A variable in the environment of the server.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// A line of `redis.conf`, such as `("appendfsync", "always")`. It replaces the default of that name; a name given
    /// twice makes two lines. The value is written as it is: quote it where Redis wants quotes.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    pub(crate) fn replace_setting(&mut self, name: &str, value: &str) {
        self.settings.retain(|(set, _)| set != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// The text of `redis.conf`. Port and folder come last: they are not for [`setting`](Self::setting) to change.
    pub(crate) fn configuration(&self, port: u16, folder: &Path) -> String {
        let mut text = String::new();
        let defaults = self.defaults();
        let is_set = |name: &str| self.settings.iter().any(|(set, _)| set == name);
        let kept = defaults.iter().filter(|(name, _)| !is_set(name)).copied();
        let set = self
            .settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in kept.chain(set) {
            let _ = writeln!(text, "{name} {value}");
        }
        let _ = writeln!(text, "port {port}\ndir {}", quoted(folder));
        text
    }

    pub(crate) fn password(&self) -> Option<&str> {
        let password = self
            .settings
            .iter()
            .rev()
            .find(|(name, _)| name == "requirepass");
        password.map(|(_, value)| value.as_str())
    }

    fn defaults(&self) -> Vec<(&'static str, &'static str)> {
        let mut settings = vec![
            ("bind", "127.0.0.1"),
            ("protected-mode", "yes"),
            ("daemonize", "no"),
        ];
        if self.is_sentinel {
            return settings;
        }
        settings.extend([
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("save", "\"\""),
            ("maxmemory-policy", "noeviction"),
            ("list-max-listpack-size", "-2"),
        ]);
        settings.extend(if self.binary.is_recent() {
            [
                ("hash-max-listpack-entries", "128"),
                ("hash-max-listpack-value", "2048"),
            ]
        } else {
            [
                ("hash-max-ziplist-entries", "128"),
                ("hash-max-ziplist-value", "2048"),
            ]
        });
        if !self.binary.is_recent() {
            settings.retain(|(name, _)| *name != "list-max-listpack-size");
        }
        settings
    }
}

fn quoted(path: &Path) -> String {
    format!(
        "\"{}\"",
        path.display()
            .to_string()
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn options(version: &str) -> Options {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redis-server");
        std::fs::write(
            &path,
            format!("#!/bin/sh\necho 'Redis server v={version} sha=0'\n"),
        )
        .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Options::new(ServerBinary::at(path).unwrap())
    }

    #[test]
    fn a_setting_replaces_the_default_of_its_name() {
        let options = options("7.0.15")
            .setting("appendfsync", "always")
            .setting("save", "60 1")
            .setting("save", "5 9");
        let text = options.configuration(1234, Path::new("/data folder"));
        assert!(text.contains("appendonly yes\n"), "{text}");
        assert!(
            text.contains("appendfsync always\nsave 60 1\nsave 5 9\n"),
            "{text}"
        );
        assert!(
            !text.contains("everysec") && !text.contains("save \"\""),
            "{text}"
        );
        assert!(
            text.ends_with("port 1234\ndir \"/data folder\"\n"),
            "{text}"
        );
    }

    #[test]
    fn an_old_server_gets_the_old_names() {
        let text = options("6.2.14").configuration(1234, Path::new("/data"));
        assert!(
            text.contains("hash-max-ziplist-value 2048\n") && !text.contains("listpack"),
            "{text}"
        );
    }

    #[test]
    fn a_sentinel_stores_nothing() {
        let options = Options::sentinel(options("7.0.15").binary);
        let text = options.configuration(1234, Path::new("/data"));
        assert!(
            text.contains("bind 127.0.0.1\n") && !text.contains("append"),
            "{text}"
        );
    }

    #[test]
    fn the_last_password_counts() {
        let options = options("7.0.15");
        assert_eq!(options.password(), None);
        assert_eq!(
            options
                .setting("requirepass", "a")
                .setting("requirepass", "b")
                .password(),
            Some("b")
        );
    }
}
