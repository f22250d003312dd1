//! Settings that cannot be used.

use std::time::Duration;

use tidegate_testkit::{Program, redis, run_to_end};

const LIMIT: Duration = Duration::from_secs(20);

/// Starts a daemon with this configuration and answers what it said before it gave up.
async fn refused(program: Program, toml: &str) -> String {
    let redis = redis();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.toml");
    std::fs::write(&file, toml).unwrap();
    let url = redis.url();
    let mut arguments = vec![
        "--redis",
        &url,
        "--admin-listen",
        "127.0.0.1:0",
        "--config",
        file.to_str().unwrap(),
    ];
    if program == Program::Api {
        arguments.extend(["--listen", "127.0.0.1:0"]);
    }
    let ended = run_to_end(program, &arguments, LIMIT).await;
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
        (Program::Api, "lisen = \"127.0.0.1:0\"", "lisen"),
        (
            Program::Api,
            "[waiters]\npol_interval = \"1s\"",
            "pol_interval",
        ),
        (Program::Api, "[pool.default]\nbukkets = 1", "bukkets"),
        (Program::Api, "[pump]\nlease = \"1s\"", "pump"),
        (
            Program::Pumpd,
            "admn_listen = \"127.0.0.1:0\"",
            "admn_listen",
        ),
        (Program::Pumpd, "[pump]\nlesse = \"1s\"", "lesse"),
        (Program::Pumpd, "[pool.default]\nbukkets = 1", "bukkets"),
    ] {
        let said = refused(program, toml).await;
        assert!(
            said.contains(key) && said.contains("settings.toml"),
            "{toml}: {said}"
        );
    }
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_named() {
    for (program, toml, key) in [
        (Program::Api, "[job]\ntries = \"many\"", "job.tries"),
        (Program::Api, "[job]\nttl_seconds = -1", "ttl_seconds"),
        (Program::Api, "drain_timeout = 5", "drain_timeout"),
        (
            Program::Api,
            "listen = \":7777\"",
            "listen must be an IP address and a port such as",
        ),
        (
            Program::Pumpd,
            "[pump]\nmove_limit = \"many\"",
            "move_limit",
        ),
        (Program::Pumpd, "[pump]\nlease = \"soon\"", "lease"),
    ] {
        let said = refused(program, toml).await;
        assert!(said.contains(key), "{toml}: {said}");
    }
}

#[tokio::test]
async fn a_value_that_makes_no_sense_is_named() {
    for (program, toml, key) in [
        (Program::Api, "[job]\ntries = 0", "job.tries"),
        (Program::Api, "[pool.default]\nbuckets = 0", "buckets"),
        (Program::Api, "[log]\nlevel = \"loud\"", "log.level"),
        (
            Program::Api,
            "[log]\nlevel = \"info,a=b=c\"",
            "such as info,tidegate_api=debug",
        ),
        (
            Program::Api,
            "[connections]\nheader_bytes_max = 1048576\n[requests]\nin_flight_bytes_max = 2097152\nbulk_bytes_max = 1",
            "connections.header_bytes_max (1048576) is more than an eighth of requests.in_flight_bytes_max",
        ),
        (Program::Api, "drain_delay = \"soon\"", "drain_delay"),
        (Program::Api, "pid_file = \"/nowhere/x\"", "pid_file"),
        (
            Program::Pumpd,
            "[log]\ndirectory = \"/nowhere\"",
            "log.directory",
        ),
        (Program::Pumpd, "[log]\naccess = true", "log.access"),
        (Program::Pumpd, "[pump]\nlease = \"1ms\"", "pump.lease"),
        (Program::Pumpd, "[pool.default]\nslot_ms = 99", "slot_ms"),
        (Program::Pumpd, "[pump]\nmove_limit = 1", "2 to 1000"),
        (Program::Pumpd, "[pump]\nload_limit = 1001", "1 to 1000"),
        (Program::Pumpd, "[pump]\nsweep_limit = 21", "1 to 20"),
        (
            Program::Pumpd,
            "[pool.default]\nbuckets = 100000",
            "buckets",
        ),
    ] {
        let said = refused(program, toml).await;
        assert!(said.contains(key), "{toml}: {said}");
    }
}

#[tokio::test]
async fn a_file_that_is_missing_or_no_toml_is_named() {
    for program in [Program::Api, Program::Pumpd] {
        let said = refused(program, "this is no toml").await;
        assert!(said.contains("settings.toml"), "{said}");
        let ended = run_to_end(program, &["--config", "/nowhere/x.toml"], LIMIT).await;
        assert_ne!(ended.code, Some(0));
        assert!(ended.log.contains("/nowhere/x.toml"), "{}", ended.log);
    }
}

#[tokio::test]
async fn an_unknown_flag_is_named() {
    for program in [Program::Api, Program::Pumpd] {
        let ended = run_to_end(program, &["--no-such-flag"], LIMIT).await;
        assert_ne!(ended.code, Some(0));
        assert!(ended.log.contains("--no-such-flag"), "{}", ended.log);
    }
}
