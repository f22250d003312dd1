//! Settings in environment variables, and unknown variables.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Output};

use tidegate_testkit::DaemonProgram;

use crate::fixture::{DaemonFixture, until_said};

const BOTH: [DaemonProgram; 2] = [DaemonProgram::Api, DaemonProgram::Pumpd];

/// Runs `--print-config` with only these variables in the environment.
fn print_config(program: DaemonProgram, variables: &[(&str, &OsStr)]) -> Output {
    let mut command = Command::new(program.path());
    command.arg("--print-config").env_clear();
    command.envs(variables.iter().copied());
    command.output().unwrap()
}

#[track_caller]
fn refused(program: DaemonProgram, variables: &[(&str, &OsStr)]) -> String {
    let output = print_config(program, variables);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{variables:?}: {message}");
    message
}

#[track_caller]
fn printed(program: DaemonProgram, variables: &[(&str, &OsStr)]) -> String {
    let output = print_config(program, variables);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{variables:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_setting_that_is_not_utf8_is_refused_and_named() {
    let value = OsString::from_vec(b"hunter2-f\xfcr-alle".to_vec());
    for (program, name) in [
        (DaemonProgram::Api, "TIDEGATE_ACCOUNTS__ADMIN"),
        (DaemonProgram::Api, "TIDEGATE_DRAIN_DELAY"),
        (DaemonProgram::Pumpd, "TIDEGATE_POOL__DEFAULT__PASSWORD"),
    ] {
        let message = refused(program, &[(name, &value)]);
        assert!(
            message.contains(name) && message.contains("UTF-8"),
            "{message}"
        );
        assert!(!message.contains("hunter2"), "{message}");
    }
    for name in ["PATH", "TIDEGATE_PUMP__INSTANCE", "TIDEGATE_SERVICE_HOST"] {
        printed(DaemonProgram::Api, &[(name, &value)]);
    }
}

#[test]
fn two_variables_for_one_setting_are_refused_and_named() {
    for (program, one, other) in [
        (DaemonProgram::Api, "TIDEGATE_LISTEN", "TIDEGATE_listen"),
        (
            DaemonProgram::Api,
            "TIDEGATE_ACCOUNTS",
            "TIDEGATE_ACCOUNTS__OPS",
        ),
        (
            DaemonProgram::Pumpd,
            "TIDEGATE_PUMP",
            "TIDEGATE_PUMP__INSTANCE",
        ),
        (
            DaemonProgram::Pumpd,
            "TIDEGATE_POOL__A__URL",
            "TIDEGATE_POOL__a__URL",
        ),
    ] {
        let value = OsStr::new("127.0.0.1:1");
        let message = refused(program, &[(one, value), (other, value)]);
        assert!(message.contains(&format!("{one} and {other}")), "{message}");
    }
}

#[test]
fn the_settings_of_the_other_daemon_may_be_in_the_environment() {
    let of_the_api = [
        "TIDEGATE_LOG__ACCESS",
        "TIDEGATE_LISTEN",
        "TIDEGATE_ALLOW_OPEN_ADMIN",
        "TIDEGATE_ACCOUNTS__OPS",
        "TIDEGATE_JOB__TRIES",
    ];
    let of_the_pump = ["TIDEGATE_PUMP__INSTANCE", "TIDEGATE_PUMP__LEASE"];
    for (program, names) in [
        (DaemonProgram::Pumpd, &of_the_api[..]),
        (DaemonProgram::Api, &of_the_pump),
    ] {
        let variables = names.iter().map(|name| (*name, OsStr::new("any value")));
        let message = printed(program, &variables.collect::<Vec<_>>());
        assert!(!message.contains("any value"), "{message}");
        assert!(!message.contains("TIDEGATE_"), "{message}");
    }
}

#[tokio::test]
async fn an_unknown_variable_is_named_in_a_warning() {
    let misspelt = "TIDEGATE_SKIP_TOKEN_CHECK";
    let of_kubernetes = [
        "TIDEGATE_PORT",
        "TIDEGATE_SERVICE_HOST",
        "TIDEGATE_SERVICE_PORT_HTTP",
        "TIDEGATE_PORT_7777_TCP_ADDR",
        "TIDEGATE_API_SERVICE_PORT",
    ];
    let names = of_kubernetes.iter().copied().chain([misspelt]);
    let variables: Vec<(&str, &str)> = names.map(|name| (name, "true")).collect();
    for program in BOTH {
        let shown = variables
            .iter()
            .map(|(name, value)| (*name, value.as_ref()));
        let shown = printed(program, &shown.collect::<Vec<_>>());
        assert!(shown.contains(misspelt), "{shown}");
        for name in of_kubernetes {
            assert!(!shown.contains(name), "{name}: {shown}");
        }
    }
    let fixture = DaemonFixture::new().await;
    let pump = fixture
        .start_with(DaemonProgram::Pumpd, &[], &variables)
        .await;
    until_said(&pump, misspelt).await;
    let log = pump.log();
    let line = log.lines().find(|line| line.contains(misspelt)).unwrap();
    assert!(line.contains("WARN"), "{line}");
    assert!(!log.contains("TIDEGATE_PORT"), "{log}");
}
