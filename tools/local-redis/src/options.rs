//! Options of a server.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::locate::ServerBinary;

/// How to start a [`RedisServer`](crate::RedisServer).
///
/// By default the server listens on a free port of 127.0.0.1, has a temporary data folder, writes an append-only file
/// (`appendfsync everysec`), never evicts keys, and uses the compact encodings of `deploy/redis/redis.conf`.
#[derive(Debug, Clone)]
pub struct LocalRedisOptions {
    pub(crate) binary: ServerBinary,
    pub(crate) data_folder: Option<PathBuf>,
    pub(crate) port: Option<u16>,
    /// Whether to run as a sentinel, which stores nothing and monitors other servers.
    pub(crate) is_sentinel: bool,
    pub(crate) ignores_sigxfsz: bool,
    pub(crate) environment: Vec<(String, String)>,
    whole_file: Option<GivenFile>,
    settings: Vec<(String, String)>,
}

/// A configuration file given as a whole.
#[derive(Debug, Clone)]
struct GivenFile {
    text: String,
    user: String,
    password: String,
}

impl LocalRedisOptions {
    /// Returns the defaults for this server program.
    #[must_use]
    pub fn new(binary: ServerBinary) -> Self {
        Self {
            binary,
            data_folder: None,
            port: None,
            is_sentinel: false,
            ignores_sigxfsz: false,
            environment: Vec::new(),
            whole_file: None,
            settings: Vec::new(),
        }
    }

    /// Returns options for a Redis Sentinel, run by the same program. Use [`setting`](Self::setting) to say what it
    /// monitors, such as `("sentinel", "monitor NAME 127.0.0.1 6379 2")`. A sentinel writes its state into its
    /// configuration file, so the file is kept over restarts.
    #[must_use]
    pub fn sentinel(binary: ServerBinary) -> Self {
        Self {
            is_sentinel: true,
            ..Self::new(binary)
        }
    }

    /// Sets the folder for data, configuration and log. It is created if missing, and not removed. Default: a
    /// temporary folder, which is removed.
    #[must_use]
    pub fn data_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_folder = Some(folder.into());
        self
    }

    /// Sets the port on 127.0.0.1. Default: a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Makes the server ignore SIGXFSZ. A limit on the size of its files (`RLIMIT_FSIZE`) then acts like a full disk:
    /// writes fail. Without this option the signal ends the server.
    #[must_use]
    pub fn ignores_sigxfsz(mut self) -> Self {
        self.ignores_sigxfsz = true;
        self
    }

    /// Adds a variable to the environment of the server.
    #[must_use]
    pub fn environment_variable(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Adds a line to `redis.conf`, such as `("appendfsync", "always")`. It replaces the default with that name; a
    /// name that is given twice makes two lines. The value is written verbatim, so quote it where Redis requires
    /// quotes.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Starts the server with this text as its configuration file, and nothing else: the text needs the port given to
    /// [`port`](Self::port), and a folder for data. Changes of the file by the server are kept over restarts. The login
    /// is for the check that the server is up.
    #[must_use]
    pub fn whole_file(
        mut self,
        text: impl Into<String>,
        user: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        self.whole_file = Some(GivenFile {
            text: text.into(),
            user: user.into(),
            password: password.into(),
        });
        self
    }

    /// Whether the server changes its configuration file, which is then written at the first start only.
    pub(crate) fn keeps_its_file(&self) -> bool {
        self.is_sentinel || self.whole_file.is_some()
    }

    pub(crate) fn replace_setting(&mut self, name: &str, value: &str) {
        self.settings.retain(|(set, _)| set != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the text of `redis.conf`. Port and folder come last, so that [`setting`](Self::setting) cannot change
    /// them.
    pub(crate) fn configuration(&self, port: u16, folder: &Path) -> String {
        if let Some(file) = &self.whole_file {
            return file.text.clone();
        }
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

    /// Returns the words that a client logs in with: a password, or a user and a password.
    pub(crate) fn login(&self) -> Vec<&str> {
        if let Some(file) = &self.whole_file {
            return vec![&file.user, &file.password];
        }
        let mut settings = self.settings.iter().rev();
        let password = settings.find(|(name, _)| name == "requirepass");
        password
            .map(|(_, value)| value.as_str())
            .into_iter()
            .collect()
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

    fn options(version: &str) -> LocalRedisOptions {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redis-server");
        std::fs::write(
            &path,
            format!("#!/bin/sh\necho 'Redis server v={version} sha=0'\n"),
        )
        .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        LocalRedisOptions::new(ServerBinary::at(path).unwrap())
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
    fn an_old_server_gets_the_old_setting_names() {
        let text = options("6.2.14").configuration(1234, Path::new("/data"));
        assert!(
            text.contains("hash-max-ziplist-value 2048\n") && !text.contains("listpack"),
            "{text}"
        );
    }

    #[test]
    fn a_sentinel_stores_nothing() {
        let options = LocalRedisOptions::sentinel(options("7.0.15").binary);
        let text = options.configuration(1234, Path::new("/data"));
        assert!(
            text.contains("bind 127.0.0.1\n") && !text.contains("append"),
            "{text}"
        );
    }

    #[test]
    fn the_last_password_counts() {
        let options = options("7.0.15");
        assert!(options.login().is_empty());
        assert_eq!(
            options
                .setting("requirepass", "a")
                .setting("requirepass", "b")
                .login(),
            ["b"]
        );
    }
}
