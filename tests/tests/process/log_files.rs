//! Logs in files, moved away under a live process.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tidegate_testkit::{Program, RawHttp, run_to_end};

use crate::fixture::{Fixture, LIMIT, ask, until_said, until_written};

const OPENED: &str = "log files are reopened";

fn with_directory(fixture: &Fixture) -> String {
    fs::create_dir_all(fixture.path("logs")).unwrap();
    let directory = fixture.name("logs");
    fixture.write("own.toml", &format!("[log]\ndirectory = \"{directory}\"\n"))
}

#[tokio::test]
async fn files_that_were_moved_away_are_left_and_new_ones_begun() {
    let fixture = Fixture::new().await;
    let file = with_directory(&fixture);
    let daemon = fixture.start(Program::Api, &["--config", &file]).await;
    let log = fixture.path("logs/error.log");
    until_written(&log, "ready").await;
    for name in ["logs/access.log", "logs/error.log"] {
        let mode = fs::metadata(fixture.path(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o137, 0, "{name}: {mode:o}");
    }
    for (number, signal) in ["SIGHUP", "SIGUSR1"].iter().enumerate() {
        let moved = fixture.path(&format!("logs/error.log.{number}"));
        fs::rename(&log, &moved).unwrap();
        if *signal == "SIGHUP" {
            daemon.hang_up();
        } else {
            daemon.reopen_logs();
        }
        let written = until_written(&log, OPENED).await;
        assert!(written.contains(signal), "{written}");
        assert!(!written.contains("ready listen"), "{written}");
        assert!(!fs::read_to_string(&moved).unwrap().contains(signal));
    }
    let first = fs::read_to_string(fixture.path("logs/error.log.0")).unwrap();
    assert!(first.contains("ready"), "{first}");
    assert_eq!(daemon.stop(LIMIT).await.code(), Some(0));
    // The last words are there too, and standard error has none of them.
    assert!(fs::read_to_string(&log).unwrap().contains("stopped"));
    assert_eq!(daemon.log(), "");
}

#[tokio::test]
async fn json_lines_have_no_control_characters() {
    let fixture = Fixture::new().await;
    let environment = [("TIDEGATE_LOG__ACCESS", "true")];
    let flags = ["--log-format", "json"];
    let api = fixture.start_with(Program::Api, &flags, &environment).await;
    let controls = "\u{80}\u{85}\u{9b}\u{2028}\u{2029}";
    let mut http = RawHttp::connect(api.listen()).await;
    assert!(
        http.send(format!("GET /marked?x={controls} HTTP/1.1\r\n\r\n"))
            .await
    );
    http.answer().await.unwrap().expect(404);
    until_said(&api, "/marked").await;
    let log = api.log();
    let line = log.lines().find(|line| line.contains("/marked")).unwrap();
    assert!(line.contains(r"\u0080\u0085\u009b\u2028\u2029"), "{line}");
    assert!(
        !log.contains(|letter: char| controls.contains(letter)),
        "{line}"
    );
    let parsed: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(parsed["query"], format!("x={controls}"));
}

#[tokio::test]
async fn a_pump_has_no_log_of_requests() {
    let fixture = Fixture::new().await;
    let file = with_directory(&fixture);
    let pump = fixture.start(Program::Pumpd, &["--config", &file]).await;
    until_written(&fixture.path("logs/error.log"), "ready").await;
    assert!(!fixture.path("logs/access.log").exists());
    assert_eq!(pump.stop(LIMIT).await.code(), Some(0));
    let file = fixture.write("own.toml", "[log]\naccess = true\n");
    let ended = run_to_end(Program::Pumpd, &["--config", &file], LIMIT).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.log.contains("log.access"), "{}", ended.log);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_told_at_the_start() {
    let fixture = Fixture::new().await;
    fs::create_dir_all(fixture.path("logs/error.log")).unwrap();
    for directory in ["missing", "logs"] {
        let directory = fixture.name(directory);
        let file = fixture.write("own.toml", &format!("[log]\ndirectory = \"{directory}\"\n"));
        for program in [Program::Api, Program::Pumpd] {
            let ended = run_to_end(program, &["--config", &file], LIMIT).await;
            assert_eq!(ended.code, Some(1));
            let said = format!("log.directory: cannot write {directory}/error.log: ");
            assert!(ended.log.contains(&said), "{}", ended.log);
        }
    }
}

#[tokio::test]
async fn a_full_disk_or_a_lost_directory_costs_lines_and_no_request() {
    let fixture = Fixture::new().await;
    let file = with_directory(&fixture);
    // A disk without room.
    std::os::unix::fs::symlink("/dev/full", fixture.path("logs/error.log")).unwrap();
    let api = fixture
        .start(
            Program::Api,
            &["--config", &file, "-sv", "--log-level", "debug"],
        )
        .await;
    until_said(&api, "No space left on device").await;
    for _ in 0..200 {
        ask(api.listen(), "PUT", "/api/ns/q", &[]).await.expect(201);
    }
    assert_eq!(
        api.log().matches("lines are lost").count(),
        1,
        "{}",
        api.log()
    );
    // The file is back once there is room again.
    fs::remove_file(fixture.path("logs/error.log")).unwrap();
    api.reopen_logs();
    until_written(&fixture.path("logs/error.log"), OPENED).await;
    // The folder is gone: what is open stays in use.
    fs::rename(fixture.path("logs"), fixture.path("elsewhere")).unwrap();
    api.reopen_logs();
    until_written(&fixture.path("elsewhere/error.log"), "stays in use").await;
    ask(api.listen(), "PUT", "/api/ns/q", &[]).await.expect(201);
    assert_eq!(api.stop(LIMIT).await.code(), Some(0));
}

#[tokio::test]
async fn a_file_that_cannot_be_reopened_does_not_keep_the_other_one_from_it() {
    let fixture = Fixture::new().await;
    let file = with_directory(&fixture);
    let environment = [("TIDEGATE_LOG__ACCESS", "true")];
    let flags = ["--config", &file];
    let api = fixture.start_with(Program::Api, &flags, &environment).await;
    let (errors, access) = ("logs/error.log", "logs/access.log");
    for name in [errors, access] {
        let moved = fixture.path(&format!("{name}.1"));
        fs::rename(fixture.path(name), moved).unwrap();
    }
    fs::create_dir(fixture.path(errors)).unwrap();
    api.reopen_logs();
    let name = fixture.name(errors);
    let said = format!("cannot write {name}: Is a directory");
    let written = until_written(&fixture.path("logs/error.log.1"), &said).await;
    let line = written.lines().find(|line| line.contains(&said)).unwrap();
    assert!(line.contains("stays in use"), "{line}");
    assert!(line.contains("send SIGUSR1 again"), "{line}");
    // The file may have been packed away.
    until_said(&api, &said).await;
    ask(api.listen(), "GET", "/marked", &[]).await.expect(404);
    until_written(&fixture.path(access), "/marked").await;
    fs::remove_dir(fixture.path(errors)).unwrap();
    api.reopen_logs();
    until_written(&fixture.path(errors), OPENED).await;
    assert_eq!(api.stop(LIMIT).await.code(), Some(0));
}

#[tokio::test]
async fn a_start_that_failed_is_told_in_the_file_and_to_whoever_started_it() {
    let fixture = Fixture::new().await;
    let file = with_directory(&fixture);
    let flags = [
        "--config",
        &file,
        "--redis",
        "redis://127.0.0.1:1",
        "--admin-listen",
        "127.0.0.1:0",
    ];
    let environment = [("TIDEGATE_CONNECT_PATIENCE", "0s")];
    for program in [Program::Api, Program::Pumpd] {
        let ended = tidegate_testkit::run_to_end_with(program, &flags, &environment, LIMIT).await;
        assert_eq!(ended.code, Some(1));
        assert!(ended.log.contains("pool default: "), "{}", ended.log);
        let written = fs::read_to_string(fixture.path("logs/error.log")).unwrap();
        assert!(written.contains("pool default: "), "{written}");
        fs::remove_file(fixture.path("logs/error.log")).unwrap();
    }
}
