//! The command line as a process, against a real server.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod bench;
mod broken_connections;
mod cold;
mod command_line;
mod dev;
mod doctor;
mod documented;
mod foreign_text;
mod namespaces;
mod running;
mod schedules;
#[path = "../sessions/mod.rs"]
mod sessions;
mod tail;
mod top;
mod work;
mod work_refused;

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tidegate_testkit::{NativeClient, SharedStack, Stack, eventually};

use command_line::CommandLine;

/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

static SERVER: SharedStack = SharedStack::new(Stack::builder);

#[tokio::test]
async fn each_command_does_what_it_says() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "commands").await;
    publish_and_change_jobs(&cli);
    // The numbers of a list may be a few seconds old.
    eventually("the queue is listed", LIMIT, async || {
        let list = cli.out(&["queue", "ls"]);
        if list.contains("\norders ") {
            Ok(())
        } else {
            Err(list)
        }
    })
    .await;
    change_queues(&cli);
    refused_commands(&cli);
    let native = NativeClient::with_scopes(stack.api(0), cli.namespace, &["publish"]).await;
    let publisher = cli.with_key(native.key());
    assert!(publisher.error(1, &["queue", "ls"]).contains("scope"));
}

#[tokio::test]
async fn jobs_are_listed_explained_and_acted_on() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "many").await;
    for number in 0..3 {
        let key = format!("order-{number}");
        cli.out(&["publish", "q", "{}", "--key", &key, "--delay", "1h"]);
    }
    cli.out(&["publish", "q", "{}", "--attr", "tenant=blue"]);
    let table = cli.out(&["job", "ls", "q", "--state", "delayed"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(
        lines[0].starts_with("id ") && lines[0].contains("time"),
        "{table}"
    );
    let blue = cli.json(&["job", "ls", "q", "--attr", "tenant=blue"]);
    assert_eq!(blue[0]["attributes"]["tenant"], "blue");
    let one = cli.json(&["job", "ls", "q", "--key-prefix", "order-", "--limit", "1"]);
    assert_eq!(one.as_array().unwrap().len(), 1);

    let explained = cli.out(&["job", "explain", "q", "key:order-1"]);
    assert!(explained.contains("It is due in 59m"), "{explained}");
    let explained = cli.json(&["job", "explain", "q", "key:order-1"]);
    assert_eq!(explained["cause"], "not_due");

    let act = |arguments: &[&str]| cli.json(&[&["job", "act", "q"], arguments].concat());
    let dry = act(&["cancel", "--key-prefix", "order-", "--dry-run"]);
    assert_eq!(dry, serde_json::json!({"matched": 3, "changed": 0}));
    let changed = act(&["change", "--key-prefix", "order-", "--delay", "2h"]);
    assert_eq!(changed["changed"], 3);
    assert_eq!(act(&["promote", "--key-prefix", "order-2"])["changed"], 1);
    assert_eq!(act(&["cancel", "--key-prefix", "order-"])["changed"], 3);
    let native = NativeClient::new(stack.api(0), cli.namespace).await;
    let job = native.reserve("q", 1).await.remove(0);
    let failed = serde_json::json!({"lease": job["lease"], "error": "smtp: 550", "dead": true});
    native
        .settle("fail", &serde_json::json!({"leases": [failed]}))
        .await;
    assert!(cli.out(&["dead", "ls", "q"]).contains("smtp: 550"));
    assert_eq!(
        cli.json(&["dead", "ls", "q", "--error", "http"]),
        serde_json::json!([])
    );
    assert_eq!(
        act(&["respawn", "--error", "smtp", "--rate", "5"])["changed"],
        1
    );
    assert!(
        cli.error(2, &["job", "act", "q", "explode"])
            .contains("unknown variant")
    );
    assert!(
        cli.error(1, &["job", "act", "q", "purge"])
            .contains("name the state")
    );
    cli.error(2, &["job", "ls", "q", "--attr", "tenant"]);
}

#[tokio::test]
async fn keys_are_created_listed_and_revoked() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "keys").await;
    let created = cli.json(&[
        "key",
        "new",
        "mailer",
        "--scope",
        "publish,read",
        "--scope",
        "consume",
    ]);
    assert_eq!(
        created["key"]["scopes"],
        serde_json::json!(["publish", "consume", "read"])
    );
    let mailer = cli.with_key(created["secret"].as_str().unwrap());
    mailer.out(&["publish", "letters", "{}"]);
    assert!(mailer.error(1, &["key", "ls"]).contains("scope"));
    let listed = cli.out(&["key", "ls"]);
    assert!(listed.contains("mailer"), "{listed}");
    assert!(!listed.contains(&mailer.key), "{listed}");
    let id = created["key"]["id"].as_str().unwrap();
    assert_eq!(cli.json(&["key", "revoke", id])["outcome"], "revoked");
    eventually("the key is rejected", LIMIT, async || {
        match mailer.run_with(&["publish", "letters", "{}"], "") {
            ended if ended.code == 1 && ended.error.contains("API key") => Ok(()),
            ended => Err(ended.error),
        }
    })
    .await;
    assert!(cli.error(1, &["key", "revoke", id]).contains("key"));
    assert!(cli.error(2, &["key", "new", "x"]).contains("--scope"));
    assert!(
        cli.error(2, &["key", "new", "x", "--scope", "write"])
            .contains("write")
    );
    let past = [
        "key",
        "new",
        "x",
        "--scope",
        "read",
        "--expires-at",
        "2001-01-01T00:00:00Z",
    ];
    assert!(cli.error(1, &past).contains("expires_at"));
    // A reader that is gone: the key is there, and its secret is lost.
    let mut new = cli.command(&["key", "new", "unread", "--scope", "read"]);
    new.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut new = new.spawn().unwrap();
    drop(new.stdout.take());
    let ended = new.wait_with_output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    let (_, id) = error.trim().rsplit_once("tidegate key revoke ").unwrap();
    cli.out(&["key", "revoke", id]);
}

#[test]
fn completions_and_manual_pages_need_no_server() {
    let cli = CommandLine::unconnected("", "");
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            cli.out(&["completions", shell]).contains("respawn"),
            "{shell}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    cli.out(&["man", folder.path().join("man1").to_str().unwrap()]);
    let page = std::fs::read_to_string(folder.path().join("man1/tidegate-work.1")).unwrap();
    assert!(page.contains("dead\\-exit\\-code"), "{page}");
    assert!(cli.error(1, &["man", "/proc/none"]).contains("/proc/none"));
}

fn publish_and_change_jobs(cli: &CommandLine) {
    let publish = ["publish", "orders", r#"{"order":17}"#, "--key", "order-17"];
    let options = ["--delay", "1h", "--attr", "tenant=blue"];
    let published = cli.json(&[publish.as_slice(), &options].concat());
    assert_eq!(published["outcome"], "created");
    assert_eq!(published["state"], "delayed");
    let id = published["id"].as_str().unwrap();

    let shown = cli.json(&["job", "show", "orders", "key:order-17"]);
    assert_eq!(shown["id"], id);
    assert_eq!(shown["attributes"]["tenant"], "blue");
    let payload = cli.out(&["job", "payload", "orders", id]);
    assert_eq!(payload, r#"{"order":17}"#);
    cli.out(&["job", "change", "orders", id, "--delay", "2h"]);
    let later = cli.json(&["job", "show", "orders", id]);
    assert!(later["run_at"].as_str().unwrap() > shown["run_at"].as_str().unwrap());
    assert!(
        cli.error(1, &["job", "result", "orders", id])
            .contains("--wait")
    );
    cli.out(&["job", "promote", "orders", id]);
    let promoted = cli.json(&["job", "show", "orders", id]);
    assert_eq!(promoted["state"], "ready");
    let cancelled = cli.json(&["job", "cancel", "orders", "key:order-17"]);
    assert_eq!(
        cancelled,
        serde_json::json!({"outcome": "cancelled", "id": id, "was": "ready"})
    );
    let again = cli.error(1, &["job", "cancel", "orders", "key:order-17"]);
    assert!(again.contains("no such job"), "{again}");

    let text = [
        "publish",
        "orders",
        "--content-type",
        "text/plain",
        "--json",
    ];
    let ended = cli.run_with(&text, "from a pipe");
    let published: Value = serde_json::from_str(&ended.out).unwrap();
    let id = published["id"].as_str().unwrap();
    assert_eq!(cli.out(&["job", "payload", "orders", id]), "from a pipe");
    let call = ["call", "orders", "{}", "--wait", "50ms"];
    assert!(cli.error(1, &call).contains("tidegate job result orders"));
}

fn change_queues(cli: &CommandLine) {
    let list = cli.out(&["queue", "ls"]);
    assert!(list.starts_with("queue "), "{list}");
    assert!(list.contains("\norders "), "{list}");
    assert_eq!(cli.json(&["queue", "ls"])[0]["queue"], "orders");
    for (command, field, value) in [
        ("pause", "paused", true),
        ("resume", "paused", false),
        ("close", "closed", true),
        ("open", "closed", false),
    ] {
        cli.out(&["queue", command, "orders"]);
        // The policy is in effect within a second, and stored at once.
        let policy = cli.json(&["queue", "policy", "orders"]);
        assert_eq!(policy[field], value, "{command}: {policy}");
    }
    for (jobs, value) in [("3", serde_json::json!(3)), ("none", Value::Null)] {
        cli.out(&["queue", "max-running", "orders", jobs]);
        let policy = cli.json(&["queue", "policy", "orders"]);
        assert_eq!(policy["max_running"], value, "{policy}");
    }
    for jobs in ["0", "-1", "x"] {
        let refused = cli.error(2, &["queue", "max-running", "orders", "--", jobs]);
        assert!(refused.contains("write a whole number from 1"), "{refused}");
    }
    cli.out(&["limit", "set", "smtp", "100/1s"]);
    for (command, value, field, expected) in [
        (
            "rate",
            "5/1m",
            "rate",
            serde_json::json!({"jobs": 5, "per_ms": 60_000}),
        ),
        ("rate", "none", "rate", Value::Null),
        ("limit", "smtp", "limit", "smtp".into()),
    ] {
        cli.out(&["queue", command, "orders", value]);
        let policy = cli.json(&["queue", "policy", "orders"]);
        assert_eq!(policy[field], expected, "{policy}");
    }
    let refused = cli.error(2, &["queue", "rate", "orders", "5"]);
    assert!(refused.contains("such as 100/1s"), "{refused}");
    let in_use = cli.error(1, &["limit", "rm", "smtp"]);
    assert!(in_use.contains("orders"), "{in_use}");
    cli.out(&["queue", "limit", "orders", "none"]);
    assert_eq!(cli.json(&["limit", "ls"])[0]["name"], "smtp");
    assert_eq!(cli.json(&["limit", "show", "smtp"])["rate"]["jobs"], 100);
    cli.out(&["limit", "rm", "smtp"]);
    assert_eq!(cli.json(&["queue", "show", "orders"])["jobs"]["ready"], 2);
    assert_eq!(cli.json(&["queue", "purge", "orders"])["deleted"], 2);
    assert_eq!(cli.json(&["dead", "respawn", "orders"])["respawned"], 0);
    assert_eq!(cli.json(&["dead", "rm", "orders"])["deleted"], 0);
}

fn refused_commands(cli: &CommandLine) {
    let invalid = cli.error(1, &["publish", "orders", "{"]);
    assert!(invalid.contains("JSON"), "{invalid}");
    assert!(
        cli.error(2, &["publish", "a b", "{}"])
            .contains("name of a queue")
    );
    let if_exists = ["publish", "q", "{}", "--key", "k", "--if-exists", "ignore"];
    assert!(cli.error(2, &if_exists).contains("replace"));
    assert!(
        cli.error(2, &["job", "change", "q", "x"])
            .contains("--delay")
    );
    assert!(
        cli.error(2, &["publish", "q", "--file", "/none"])
            .contains("/none")
    );
    let unknown = cli.with_key("tg_UNKNOWN");
    unknown.error(1, &["queue", "ls"]);
    // No server can listen on port 0.
    let unreachable = CommandLine::unconnected("http://127.0.0.1:0", "k-of-no-server");
    let error = unreachable.error(3, &["queue", "show", "q"]);
    assert!(error.contains("TG_URL"), "{error}");
}

#[test]
fn each_command_has_a_help_text() {
    let cli = CommandLine::unconnected("", "a-key-that-no-help-shows");
    for command in [
        "",
        "work",
        "bench",
        "dev",
        "doctor",
        "tail",
        "top",
        "completions",
        "man",
        "publish",
        "call",
        "job",
        "job show",
        "job payload",
        "job result",
        "job change",
        "job promote",
        "job cancel",
        "queue",
        "queue ls",
        "queue show",
        "queue policy",
        "queue pause",
        "queue resume",
        "queue close",
        "queue open",
        "queue max-running",
        "queue purge",
        "dead",
        "dead respawn",
        "dead rm",
        "schedule",
        "schedule ls",
        "schedule show",
        "schedule set",
        "schedule pause",
        "schedule resume",
        "schedule rm",
    ] {
        let mut arguments: Vec<_> = command.split_whitespace().collect();
        arguments.push("--help");
        let help = cli.out(&arguments);
        assert!(help.contains("Usage: tidegate"), "{command}: {help}");
        assert!(!help.starts_with("Usage"), "{command}: {help}");
        assert!(!help.contains(&cli.key), "{command}: {help}");
    }
}
