//! Log files, which are moved while the process runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tidegate_testkit::{DaemonProgram, RawHttp, run_until_exit};

use crate::fixture::{DaemonFixture, LIMIT, ask, until_said, until_written};

const OPENED: &str = "reopened log files";

fn with_directory(fixture: &DaemonFixture) -> String {
    fs::create_dir_all(fixture.path("logs")).unwrap();
    let directory = fixture.name("logs");
    fixture.write("own.toml", &format!("[log]\ndirectory = \"{directory}\"\n"))
}

#[tokio::test]
async fn moved_log_files_are_reopened_on_a_signal() {
    let fixture = DaemonFixture::new().await;
    let file = with_directory(&fixture);
    let daemon = fixture
        .start(DaemonProgram::Api, &["--config", &file])
        .await;
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
            daemon.reload();
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
    // The last lines are in the file too, and none is on standard error.
    assert!(fs::read_to_string(&log).unwrap().contains("stopped"));
    assert_eq!(daemon.log(), "");
}

#[tokio::test]
async fn json_lines_have_no_control_characters() {
    let fixture = DaemonFixture::new().await;
    let environment = [("TIDEGATE_LOG__ACCESS", "true")];
    let flags = ["--log-format", "json"];
    let api = fixture
        .start_with(DaemonProgram::Api, &flags, &environment)
        .await;
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
async fn a_pump_has_no_access_log() {
    let fixture = DaemonFixture::new().await;
    let file = with_directory(&fixture);
    let pump = fixture
        .start(DaemonProgram::Pumpd, &["--config", &file])
        .await;
    until_written(&fixture.path("logs/error.log"), "ready").await;
    assert!(!fixture.path("logs/access.log").exists());
    assert_eq!(pump.stop(LIMIT).await.code(), Some(0));
    let file = fixture.write("own.toml", "[log]\naccess = true\n");
    let ended = run_until_exit(DaemonProgram::Pumpd, &["--config", &file], LIMIT).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.log.contains("log.access"), "{}", ended.log);
}

#[tokio::test]
async fn an_unwritable_log_directory_is_refused_at_the_start() {
    let fixture = DaemonFixture::new().await;
    fs::create_dir_all(fixture.path("logs/error.log")).unwrap();
    for directory in ["missing", "logs"] {
        let directory = fixture.name(directory);
        let file = fixture.write("own.toml", &format!("[log]\ndirectory = \"{directory}\"\n"));
        for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
            let ended = run_until_exit(program, &["--config", &file], LIMIT).await;
            assert_eq!(ended.code, Some(1));
            let message = format!("log.directory: cannot write {directory}/error.log: ");
            assert!(ended.log.contains(&message), "{}", ended.log);
        }
    }
}

#[tokio::test]
async fn a_full_disk_or_a_lost_directory_fails_no_request() {
    let fixture = DaemonFixture::new().await;
    let file = with_directory(&fixture);
    // A full disk.
    std::os::unix::fs::symlink("/dev/full", fixture.path("logs/error.log")).unwrap();
    let api = fixture
        .start(
            DaemonProgram::Api,
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
    // Once there is room, the file is written again.
    fs::remove_file(fixture.path("logs/error.log")).unwrap();
    api.reopen_logs();
    until_written(&fixture.path("logs/error.log"), OPENED).await;
    // The folder is gone: the open files stay in use.
    fs::rename(fixture.path("logs"), fixture.path("elsewhere")).unwrap();
    api.reopen_logs();
    until_written(&fixture.path("elsewhere/error.log"), "stays in use").await;
    ask(api.listen(), "PUT", "/api/ns/q", &[]).await.expect(201);
    assert_eq!(api.stop(LIMIT).await.code(), Some(0));
}

#[tokio::test]
async fn one_log_file_is_reopened_if_the_other_cannot_be() {
    let fixture = DaemonFixture::new().await;
    let file = with_directory(&fixture);
    let environment = [("TIDEGATE_LOG__ACCESS", "true")];
    let flags = ["--config", &file];
    let api = fixture
        .start_with(DaemonProgram::Api, &flags, &environment)
        .await;
    let (errors, access) = ("logs/error.log", "logs/access.log");
    for name in [errors, access] {
        let moved = fixture.path(&format!("{name}.1"));
        fs::rename(fixture.path(name), moved).unwrap();
    }
    fs::create_dir(fixture.path(errors)).unwrap();
    api.reopen_logs();
    let name = fixture.name(errors);
    let message = format!("cannot write {name}: Is a directory");
    let written = until_written(&fixture.path("logs/error.log.1"), &message).await;
    let line = written
        .lines()
        .find(|line| line.contains(&message))
        .unwrap();
    assert!(line.contains("stays in use"), "{line}");
    assert!(line.contains("send SIGUSR1 again"), "{line}");
    // The moved file may be compressed by now, so the error is on standard error as well.
    until_said(&api, &message).await;
    ask(api.listen(), "GET", "/marked", &[]).await.expect(404);
    until_written(&fixture.path(access), "/marked").await;
    fs::remove_dir(fixture.path(errors)).unwrap();
    api.reopen_logs();
    until_written(&fixture.path(errors), OPENED).await;
    assert_eq!(api.stop(LIMIT).await.code(), Some(0));
}

#[tokio::test]
async fn a_failed_start_is_logged_to_the_file_and_to_standard_error() {
    let fixture = DaemonFixture::new().await;
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
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let ended =
            tidegate_testkit::run_until_exit_with(program, &flags, &environment, LIMIT).await;
        assert_eq!(ended.code, Some(1));
        assert!(ended.log.contains("pool default: "), "{}", ended.log);
        let written = fs::read_to_string(fixture.path("logs/error.log")).unwrap();
        assert!(written.contains("pool default: "), "{written}");
        fs::remove_file(fixture.path("logs/error.log")).unwrap();
    }
}
