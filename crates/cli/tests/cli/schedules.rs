//! `tidegate schedule`.

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, eventually};

use super::command_line::CommandLine;
use super::{LIMIT, SERVER};

const DAILY: [&str; 9] = [
    "schedule",
    "set",
    "digest",
    "mails",
    r#"{"kind":"digest"}"#,
    "--cron",
    "0 9 * * MON-FRI",
    "--time-zone",
    "Europe/Berlin",
];

/// The value behind a name in lines of names and values.
fn value<'a>(lines: &'a str, name: &str) -> Option<&'a str> {
    let line = lines.lines().find_map(|line| line.strip_prefix(name));
    line.filter(|rest| rest.starts_with(' ')).map(str::trim)
}

#[tokio::test]
async fn a_schedule_is_set_shown_paused_and_deleted() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "schedules").await;
    assert_eq!(cli.json(&["schedule", "ls"]), json!([]));
    let options = ["--attr", "tenant=blue", "--retain", "1h", "--delay", "90s"];
    let created = cli.json(&[&DAILY[..], &options].concat());
    assert_eq!(
        created["config"]["job"]["payload"],
        json!({"kind": "digest"})
    );
    assert_eq!(created["config"]["job"]["attributes"]["tenant"], "blue");
    assert_eq!(created["config"]["job"]["delay"], "1m30s");

    let shown = cli.json(&["schedule", "show", "digest", "--runs", "3"]);
    assert_eq!(shown["runs"].as_array().unwrap().len(), 3);
    assert_eq!(shown["runs"][0], shown["next_run"]);
    let lines = cli.out(&["schedule", "show", "digest", "--runs", "12"]);
    assert_eq!(
        value(&lines, "times"),
        Some("0 9 * * MON-FRI Europe/Berlin")
    );
    assert_eq!(value(&lines, "job.delay"), Some("1m30s"));
    assert_eq!(value(&lines, "runs.01"), shown["next_run"].as_str());
    assert!(value(&lines, "runs.12").is_some(), "{lines}");

    let every = ["schedule", "set", "a-poll", "feeds", "{}", "--every", "90m"];
    cli.out(&[&every[..], &["--overlap", "allow", "--paused"]].concat());
    let table = cli.out(&["schedule", "ls"]);
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[0].starts_with("name ") && rows[0].contains(" next_run"));
    assert!(rows[1].starts_with("a-poll ") && rows[1].contains("every 1h30m"));
    assert!(rows[1].contains(" paused") && rows[2].starts_with("digest "));
    assert_eq!(rows.len(), 3, "{table}");

    let paused = cli.json(&["schedule", "pause", "digest"]);
    assert_eq!(
        (&paused["next_run"], &paused["config"]["paused"]),
        (&Value::Null, &json!(true))
    );
    assert_eq!(paused["config"]["job"], created["config"]["job"]);
    let lines = cli.out(&["schedule", "show", "digest"]);
    assert_eq!(value(&lines, "next_run"), Some("paused"));
    let resumed = cli.json(&["schedule", "resume", "digest"]);
    assert_eq!(resumed["next_run"], created["next_run"]);
    assert_eq!(
        cli.json(&["schedule", "rm", "digest"])["outcome"],
        "deleted"
    );
    assert_eq!(
        cli.json(&["schedule", "delete", "a-poll"])["outcome"],
        "deleted"
    );
}

#[tokio::test]
async fn a_schedule_publishes_the_payload_from_its_standard_input() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "schedule-input").await;
    let set = [
        "schedule",
        "set",
        "s",
        "inputs",
        "--content-type",
        "text/plain",
    ];
    let ended = cli.run_with(&[&set[..], &["--every", "100ms"]].concat(), "from a pipe");
    assert_eq!(ended.code, 0, "{}", ended.error);
    let jobs = eventually("a job is published", LIMIT, async || {
        match cli.json(&["job", "ls", "inputs"]) {
            Value::Array(jobs) if !jobs.is_empty() => Ok(jobs),
            other => Err(other),
        }
    })
    .await;
    cli.out(&["schedule", "rm", "s"]);
    assert_eq!(jobs[0]["attributes"]["tidegate-schedule"], "s");
    let id = jobs[0]["id"].as_str().unwrap();
    assert_eq!(cli.out(&["job", "payload", "inputs", id]), "from a pipe");
}

#[tokio::test]
async fn a_change_is_refused_if_the_schedule_is_not_as_it_was_seen() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "schedule-seen").await;
    let new = [&DAILY[..], &["--new"]].concat();
    let first = cli.json(&new)["revision"].as_str().unwrap().to_owned();
    let exists = cli.error(1, &new);
    assert!(exists.contains("leave out --new"), "{exists}");
    let seen = [&DAILY[..], &["--revision", &first]].concat();
    cli.out(&seen);
    let remove = ["schedule", "rm", "digest", "--revision", &first];
    for arguments in [&seen[..], &remove] {
        let refused = cli.error(1, arguments);
        assert!(
            refused.contains("tidegate schedule show digest"),
            "{refused}"
        );
    }
    cli.out(&["schedule", "show", "digest"]);
}

/// A command that sets a schedule.
fn set<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    [&["schedule", "set", "s", "q", "{}"], flags].concat()
}

#[tokio::test]
async fn errors_of_schedules_name_what_is_not_valid() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "schedule-errors").await;
    for (code, flags, part) in [
        (1, &["--cron", "0 9 * *"][..], "field cron"),
        (1, &["--cron", "0 0 30 2 *"], "field cron"),
        (
            1,
            &["--cron", "0 9 * * *", "--time-zone", "Mars/Olympus"],
            "Mars/Olympus",
        ),
        (1, &["--every", "99ms"], "field every"),
        (2, &["--every", "soon"], "soon"),
        (2, &[], "--cron"),
        (2, &["--every", "1m", "--cron", "0 9 * * *"], "--cron"),
        (2, &["--every", "1m", "--time-zone", "UTC"], "--time-zone"),
        (2, &["--every", "1m", "--overlap", "skip"], "replace"),
        (2, &["--every", "1m", "--attr", "A=b"], "lower-case"),
    ] {
        let error = cli.error(code, &set(flags));
        assert!(error.contains(part), "{flags:?}: {error}");
    }
    let invalid_json = ["schedule", "set", "s", "q", "{", "--every", "1m"];
    assert!(cli.error(1, &invalid_json).contains("JSON"));
    let no_queue = ["schedule", "set", "s", "a b", "{}", "--every", "1m"];
    assert!(cli.error(2, &no_queue).contains("name of a queue"));
    for arguments in [
        &["schedule", "show", "s"][..],
        &["schedule", "pause", "s"],
        &["schedule", "rm", "s"],
    ] {
        let error = cli.error(1, arguments);
        assert!(error.contains("no schedule with this name"), "{error}");
    }
    let runs = ["schedule", "show", "s", "--runs", "101"];
    assert!(cli.error(2, &runs).contains("from 1 to 100"));
    cli.out(&set(&["--every", "1h"]));
    let moved = ["schedule", "set", "s", "other", "{}", "--every", "1h"];
    assert!(cli.error(1, &moved).contains("delete it first"));
    let native = NativeClient::with_scopes(stack.api(0), cli.namespace, &["read"]).await;
    let reader = cli.with_key(native.key());
    reader.out(&["schedule", "ls"]);
    assert!(reader.error(1, &["schedule", "rm", "s"]).contains("scope"));
}

/// JSON that the server keeps as it is, and that no number type of this program holds.
#[tokio::test]
async fn payloads_are_shown_as_they_were_given() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "payloads").await;
    let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
    let payloads = [
        r#"{"limit":1.00000000000000000000e300}"#,
        r#"{"id":12345678901234567890123}"#,
        &deep,
    ];
    for (number, payload) in payloads.iter().enumerate() {
        let name = format!("s{number}");
        let set = ["schedule", "set", &name, "q", payload, "--every", "1h"];
        cli.out(&set);
        let lines = cli.out(&["schedule", "show", &name]);
        assert_eq!(value(&lines, "job.payload"), Some(*payload));
        for command in ["show", "pause", "resume"] {
            let json = cli.out(&["schedule", command, &name, "--json"]);
            assert!(json.contains(payload), "{command}: {json}");
        }
    }
    let all = cli.out(&["schedule", "ls", "--json"]);
    assert!(
        payloads.iter().all(|payload| all.contains(payload)),
        "{all}"
    );
    let table = cli.out(&["schedule", "ls"]);
    assert_eq!(table.lines().count(), 1 + payloads.len(), "{table}");
}
