//! Every key of both daemons with values of every kind: a daemon works with the value, or an error names the key.
//!
//! The default files name the keys, also the keys without a default, so new keys are tested too. The smallest and the
//! largest value that an error mentions are tried as well.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::iter;
use tidegate_testkit::{Daemon, DaemonProgram, RawHttp, print_figure, run_until_exit, start_redis};
use toml::{Table, Value};

const LIMIT: Duration = Duration::from_secs(60);
const API: &str = include_str!("../../../config/api.toml");
const PUMPD: &str = include_str!("../../../config/pumpd.toml");

/// The number of daemons that run at the same time.
const BESIDE: usize = 4;

/// The text is a path that does not exist, since some keys are paths.
const VALUES: [&str; 18] = [
    "true",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "1.5",
    "nan",
    "\"\"",
    "\"/nowhere/x\"",
    "\"0s\"",
    "\"-1s\"",
    "\"1500us\"",
    "\"500000000000years\"",
    "[]",
    "[1]",
    "{}",
    "1979-05-27",
];

/// The keys of a default file, with dots between their parts. Tables whose keys have any name count as keys.
fn keys(defaults: &str) -> Vec<String> {
    let lines = defaults.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting,
        _ => line,
    });
    let text: Vec<&str> = lines.collect();
    let table: Table = text.join("\n").parse().unwrap();
    let mut found = Vec::new();
    collect(&table, "", &mut found);
    assert!(found.len() > 20, "{found:?}");
    found
}

fn collect(table: &Table, prefix: &str, found: &mut Vec<String>) {
    for (key, value) in table {
        let path = format!("{prefix}{key}");
        match value {
            Value::Table(inner) if !inner.is_empty() => {
                if inner.contains_key("NAME") && key != "pool" {
                    found.push(path.clone());
                }
                collect(inner, &format!("{path}."), found);
            }
            _ => found.push(path),
        }
    }
}

/// The smallest and the largest value in an error such as `must be 1 to 64, not 65`.
fn bounds(message: &str) -> Vec<String> {
    let Some((_, rest)) = message.split_once("must be ") else {
        return Vec::new();
    };
    let Some((range, _)) = rest.split_once(", not ") else {
        return Vec::new();
    };
    let range = range.rsplit(", ").next().unwrap_or_default();
    let Some((least, most)) = range.split_once(" to ") else {
        return Vec::new();
    };
    [least, most]
        .map(|value| match value.parse::<i64>() {
            Ok(number) => number.to_string(),
            Err(_) => format!("\"{value}\""),
        })
        .to_vec()
}

struct KeyCase {
    program: DaemonProgram,
    key: String,
    value: String,
    /// Settings that all daemons of this test have.
    base: Vec<(&'static str, String)>,
}

impl KeyCase {
    fn settings(&self) -> String {
        let base = self.base.iter().filter(|(key, _)| *key != self.key);
        let base = base.map(|(key, value)| format!("{key} = {value}\n"));
        format!(
            "{} = {}\n{}",
            self.key,
            self.value,
            base.collect::<String>()
        )
    }

    /// Tries the value; returns the error if it is refused.
    async fn run(&self) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        std::fs::write(&file, self.settings()).unwrap();
        let file = file.to_str().unwrap();
        let shown = ["--config", file, "--print-config"];
        let ended = run_until_exit(self.program, &shown, LIMIT).await;
        if ended.code != Some(0) {
            self.expect_refusal(&self.key, &ended.log);
            return Some(ended.log);
        }
        let arguments = ["--config".to_owned(), file.to_owned()];
        let name = self.program.name();
        match Daemon::try_start(self.program, name, &arguments, &[], folder.path()).await {
            Ok(daemon) => {
                self.use_it(&daemon).await;
                None
            }
            Err(message) => {
                let last = self.key.rsplit('.').next().unwrap();
                self.expect_refusal(last, &message);
                Some(message)
            }
        }
    }

    fn expect_refusal(&self, name: &str, message: &str) {
        let Self { key, value, .. } = self;
        let quoted = name.replace(".NAME", ", \"NAME\"");
        assert!(
            message.contains(name) || message.contains(&quoted),
            "{key} = {value}: {message}"
        );
        assert!(!message.contains("panicked"), "{key} = {value}: {message}");
    }

    /// Sends requests, and expects that the daemon still answers afterwards.
    async fn use_it(&self, daemon: &Daemon) {
        let Self { key, value, .. } = self;
        if self.program == DaemonProgram::Api {
            for line in [
                "PUT /api/n/q HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
                "GET /api/n/q?timeout=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            ] {
                let connected = RawHttp::try_connect(daemon.listen()).await;
                let mut http = connected
                    .unwrap_or_else(|error| panic!("{key} = {value}: {error}: {}", daemon.log()));
                http.send(line).await;
                http.head().await;
            }
        }
        let mut http = RawHttp::connect(daemon.admin()).await;
        http.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await;
        let answer = http.answer().await;
        let log = daemon.log();
        let status = answer.map(|answer| answer.status);
        assert_eq!(status, Some(200), "{key} = {value}: {log}");
        assert!(!log.contains("panicked"), "{key} = {value}: {log}");
    }
}

/// Tries all keys of a daemon with all values.
async fn walk(program: DaemonProgram, defaults: &str, base: Vec<(&'static str, String)>) {
    let case = |key: &str, value: &str| KeyCase {
        program,
        key: key.to_owned(),
        value: value.to_owned(),
        base: base.clone(),
    };
    let keys = keys(defaults);
    let values = keys
        .iter()
        .flat_map(|key| VALUES.iter().map(move |value| (key, value)));
    // Every text is the path of a file that could be written: durations would become files here.
    let values = values.filter(|(key, value)| *key != "pid_file" || !value.ends_with("s\""));
    let cases: Vec<KeyCase> = values.map(|(key, value)| case(key, value)).collect();
    let tried = iter(cases).map(async |one| (one.run().await, one));
    let tried: Vec<_> = tried.buffer_unordered(BESIDE).collect().await;
    let mut at_bounds: Vec<(String, String)> = Vec::new();
    for (refused, one) in &tried {
        let bounds = bounds(refused.as_deref().unwrap_or_default());
        at_bounds.extend(bounds.into_iter().map(|value| (one.key.clone(), value)));
    }
    at_bounds.sort();
    at_bounds.dedup();
    let accepted = tried
        .iter()
        .filter(|(refused, _)| refused.is_none())
        .count();
    print_figure(&format!(
        "{} keys of {}: {accepted} of {} values are accepted; {} bounds",
        keys.len(),
        program.name(),
        tried.len(),
        at_bounds.len()
    ));
    assert!(accepted > keys.len() / 2);
    assert!(at_bounds.len() > keys.len() / 2);
    let cases: Vec<KeyCase> = at_bounds
        .iter()
        .map(|(key, value)| case(key, value))
        .collect();
    let tried = iter(cases).map(async |one| (one.run().await, one));
    let tried: Vec<_> = tried.buffer_unordered(BESIDE).collect().await;
    for (refused, one) in &tried {
        // A bound may be refused because of other settings, but not as out of bounds.
        let message = refused.as_deref().unwrap_or_default();
        assert!(
            !message.contains(&format!("not {}", one.value)),
            "{}: {message}",
            one.key
        );
    }
}

fn base(url: &str) -> Vec<(&'static str, String)> {
    vec![
        ("pool.default.url", format!("\"{url}\"")),
        ("connect_patience", "\"5s\"".to_owned()),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_of_the_api_is_accepted_or_named() {
    let redis = start_redis();
    let mut base = base(&redis.url());
    base.push(("skip_token_checks", "true".to_owned()));
    walk(DaemonProgram::Api, API, base).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_of_the_pump_is_accepted_or_named() {
    let redis = start_redis();
    let base = base(&redis.url());
    walk(DaemonProgram::Pumpd, PUMPD, base).await;
}
