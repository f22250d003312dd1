//! `tidegate capacity` as a process: the sessions of docs/capacity.md, and wrong input.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod sessions;

use std::process::{Command, Output};

use serde_json::Value;

use sessions::sessions;

const PAGE: &str = include_str!("../../../docs/capacity.md");

fn tidegate(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments.split(' ')).output().unwrap()
}

#[test]
fn the_sessions_of_the_page_print_what_it_shows() {
    let sessions = sessions(PAGE);
    assert!(sessions.len() >= 4, "{sessions:?}");
    for (arguments, shown) in sessions {
        let output = tidegate(arguments);
        assert!(output.status.success(), "{arguments}: {output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.trim_end(), shown.trim_end(), "{arguments}");
    }
}

#[test]
fn scripts_get_all_numbers() {
    let output = tidegate("capacity --jobs-per-second 15k --pending 1M --bytes 100 --json");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["jobs_per_second"], 15_000);
    assert_eq!(plan["deployments"][0]["name"], "one Redis");
    let percent = plan["deployments"][0]["core_percent"].as_f64().unwrap();
    assert!((percent - 45.9).abs() < 0.1, "{percent}");
}

#[test]
fn wrong_numbers_are_refused_with_what_is_expected() {
    for (arguments, said) in [
        ("capacity --pending 1M", "--jobs-per-second"),
        (
            "capacity --jobs-per-second many --pending 1",
            "whole number",
        ),
        (
            "capacity --jobs-per-second 11M --pending 1",
            "the largest is 10000000",
        ),
        (
            "capacity --jobs-per-second 1 --pending 1 --busy 100",
            "10..=95",
        ),
        (
            "capacity --jobs-per-second 1 --pending 1 --requests some",
            "batch",
        ),
    ] {
        let output = tidegate(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {error}");
        assert!(error.contains(said), "{arguments}: {error}");
    }
}
