//! Settings that are refused.

use std::time::Duration;

use tidegate_testkit::{
    DaemonProgram, run_until_exit, run_until_exit_with, run_with_settings, start_redis,
};

const LIMIT: Duration = Duration::from_secs(20);

/// Starts a daemon with this configuration and returns its log. It must exit with an error.
async fn refused(program: DaemonProgram, toml: &str) -> String {
    let redis = start_redis();
    let url = redis.url();
    let ended = run_with_settings(program, toml, &["--redis", &url], LIMIT).await;
    assert!(
        ended.code.is_some_and(|code| code != 0),
        "{toml}: {ended:?}"
    );
    assert!(!ended.log.contains("panicked"), "{toml}: {}", ended.log);
    ended.log
}

#[tokio::test]
async fn an_unknown_key_is_named() {
    for (program, toml, key) in [
        (DaemonProgram::Api, "lisen = \"127.0.0.1:0\"", "lisen"),
        (
            DaemonProgram::Api,
            "[waiters]\npol_interval = \"1s\"",
            "pol_interval",
        ),
        (DaemonProgram::Api, "[pool.default]\nbukkets = 1", "bukkets"),
        (DaemonProgram::Api, "[pump]\nlease = \"1s\"", "pump"),
        (
            DaemonProgram::Pumpd,
            "admn_listen = \"127.0.0.1:0\"",
            "admn_listen",
        ),
        (DaemonProgram::Pumpd, "[pump]\nlesse = \"1s\"", "lesse"),
        (
            DaemonProgram::Pumpd,
            "[pool.default]\nbukkets = 1",
            "bukkets",
        ),
    ] {
        let message = refused(program, toml).await;
        assert!(
            message.contains(key) && message.contains("settings.toml"),
            "{toml}: {message}"
        );
    }
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_named() {
    for (program, toml, key) in [
        (DaemonProgram::Api, "[job]\ntries = \"many\"", "job.tries"),
        (DaemonProgram::Api, "[job]\nttl_seconds = -1", "ttl_seconds"),
        (DaemonProgram::Api, "drain_timeout = 5", "drain_timeout"),
        (
            DaemonProgram::Api,
            "listen = \":7777\"",
            "listen must be an IP address and a port such as",
        ),
        (
            DaemonProgram::Pumpd,
            "[pump]\nmove_limit = \"many\"",
            "move_limit",
        ),
        (DaemonProgram::Pumpd, "[pump]\nlease = \"soon\"", "lease"),
    ] {
        let message = refused(program, toml).await;
        assert!(message.contains(key), "{toml}: {message}");
    }
}

#[tokio::test]
async fn an_invalid_value_is_named() {
    for (program, toml, key) in [
        (DaemonProgram::Api, "[job]\ntries = 0", "job.tries"),
        (DaemonProgram::Api, "[pool.default]\nbuckets = 0", "buckets"),
        (DaemonProgram::Api, "[log]\nlevel = \"loud\"", "log.level"),
        (
            DaemonProgram::Api,
            "[log]\nlevel = \"info,a=b=c\"",
            "such as info,tidegate_api=debug",
        ),
        (
            DaemonProgram::Api,
            "[connections]\nheader_bytes_max = 1048576\n[requests]\nin_flight_bytes_max = 2097152\nbulk_bytes_max = 1",
            "connections.header_bytes_max (1048576) is more than an eighth of requests.in_flight_bytes_max",
        ),
        (DaemonProgram::Api, "drain_delay = \"soon\"", "drain_delay"),
        (DaemonProgram::Api, "pid_file = \"/nowhere/x\"", "pid_file"),
        (
            DaemonProgram::Pumpd,
            "[log]\ndirectory = \"/nowhere\"",
            "log.directory",
        ),
        (DaemonProgram::Pumpd, "[log]\naccess = true", "log.access"),
        (
            DaemonProgram::Pumpd,
            "[pump]\nlease = \"1ms\"",
            "pump.lease",
        ),
        (
            DaemonProgram::Pumpd,
            "[pool.default]\nslot_ms = 99",
            "slot_ms",
        ),
        (DaemonProgram::Pumpd, "[pump]\nmove_limit = 1", "2 to 1000"),
        (
            DaemonProgram::Pumpd,
            "[pump]\nload_limit = 1001",
            "1 to 1000",
        ),
        (DaemonProgram::Pumpd, "[pump]\nsweep_limit = 21", "1 to 20"),
        (
            DaemonProgram::Pumpd,
            "[pool.default]\nbuckets = 100000",
            "buckets",
        ),
    ] {
        let message = refused(program, toml).await;
        assert!(message.contains(key), "{toml}: {message}");
    }
}

/// A file that a secret was mounted from usually ends with a line break.
#[tokio::test]
async fn a_secret_that_ends_in_white_space_is_refused_with_its_key() {
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let message = refused(program, "[pool.default]\npassword = \"hunter2\\n\"").await;
        assert!(
            message.contains("pool.default.password begins or ends with white space"),
            "{message}"
        );
        let environment = [("TIDEGATE_POOL__DEFAULT__PASSWORD", "hunter2\n")];
        let flags = ["--print-config"];
        let ended = run_until_exit_with(program, &flags, &environment, LIMIT).await;
        assert_eq!(ended.code, Some(1));
        assert!(
            ended.log.contains("pool.default.password begins or ends"),
            "{}",
            ended.log
        );
        assert!(!ended.log.contains("hunter2") && !message.contains("hunter2"));
    }
    let environment = [("TIDEGATE_ACCOUNTS__OPS", "hunter2 ")];
    let ended = run_until_exit_with(DaemonProgram::Api, &["--print-config"], &environment, LIMIT);
    let log = ended.await.log;
    assert!(
        log.contains("accounts.ops begins or ends with white space"),
        "{log}"
    );
    assert!(log.contains("environment"), "{log}");
}

#[tokio::test]
async fn a_missing_or_invalid_file_is_named() {
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let message = refused(program, "this is no toml").await;
        assert!(message.contains("settings.toml"), "{message}");
        let ended = run_until_exit(program, &["--config", "/nowhere/x.toml"], LIMIT).await;
        assert_ne!(ended.code, Some(0));
        assert!(ended.log.contains("/nowhere/x.toml"), "{}", ended.log);
    }
}

#[tokio::test]
async fn an_unknown_flag_is_named() {
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let ended = run_until_exit(program, &["--no-such-flag"], LIMIT).await;
        assert_ne!(ended.code, Some(0));
        assert!(ended.log.contains("--no-such-flag"), "{}", ended.log);
    }
}
