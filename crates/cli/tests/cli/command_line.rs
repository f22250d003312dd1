//! The command line as a process.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use tidegate_testkit::{NativeClient, Stack};

/// A command line with the settings of a connection.
pub(crate) struct CommandLine {
    pub(crate) url: String,
    pub(crate) namespace: &'static str,
    pub(crate) key: String,
}

/// How a process ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) error: String,
}

impl CommandLine {
    /// With a key that may do everything in a namespace.
    pub(crate) async fn connected(stack: &Stack, namespace: &'static str) -> Self {
        let native = NativeClient::new(stack.api(0), namespace).await;
        Self {
            url: stack.api(0).url(),
            namespace,
            key: native.key().to_owned(),
        }
    }

    /// Without a server.
    pub(crate) fn unconnected(url: &str, key: &str) -> Self {
        Self {
            url: url.to_owned(),
            namespace: "none",
            key: key.to_owned(),
        }
    }

    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self {
            url: self.url.clone(),
            namespace: self.namespace,
            key: key.to_owned(),
        }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(arguments)
            .env("TG_URL", &self.url)
            .env("TG_KEY", &self.key)
            .env("TG_NAMESPACE", self.namespace);
        command
    }

    /// Runs a command, with this standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Ended {
        let mut process = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read its input may have ended.
        drop(process.stdin.take().unwrap().write_all(input.as_bytes()));
        let output = process.wait_with_output().unwrap();
        Ended {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            error: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The standard output of a command that succeeds.
    pub(crate) fn out(&self, arguments: &[&str]) -> String {
        let ended = self.run_with(arguments, "");
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.error);
        ended.out
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json"]].concat();
        serde_json::from_str(&self.out(&arguments)).unwrap()
    }

    /// The error of a command that ends with this code. It never has the key.
    pub(crate) fn error(&self, code: i32, arguments: &[&str]) -> String {
        let ended = self.run_with(arguments, "");
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.error);
        assert_eq!(ended.out, "", "{arguments:?}");
        let shows_key = !self.key.is_empty() && ended.error.contains(&self.key);
        assert!(!shows_key, "{}", ended.error);
        ended.error
    }
}
