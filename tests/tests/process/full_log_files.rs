//! Log files that cannot grow for a while. A limit on the size of files (`RLIMIT_FSIZE`) makes writes fail as a
//! full disk does, also in the middle of a line.

use std::fs;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tidegate_testkit::{Daemon, DaemonProgram, RawHttp, eventually};

use crate::fixture::{DaemonFixture, LIMIT, until_written};

const LOST: &str = "tidegate_log_lines_lost_total";

/// From now on no file of the daemon can become larger than this; `None` lifts the limit.
fn limit_files(daemon: &Daemon, bytes_max: Option<u64>) {
    let limit = Rlimit {
        current: bytes_max,
        maximum: None,
    };
    let pid = Pid::from_raw(daemon.pid().cast_signed());
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

fn flags(fixture: &DaemonFixture, more: &str) -> [String; 2] {
    fs::create_dir_all(fixture.path("logs")).unwrap();
    let directory = fixture.name("logs");
    let text = format!("[log]\ndirectory = \"{directory}\"\n{more}");
    ["--config".to_owned(), fixture.write("own.toml", &text)]
}

#[tokio::test]
async fn a_file_size_limit_ends_no_daemon() {
    let fixture = DaemonFixture::new().await;
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let [flag, file] = flags(&fixture, "");
        let daemon = fixture.start(program, &[&flag, &file]).await;
        let log = fixture.path("logs/error.log");
        until_written(&log, " ready ").await;
        limit_files(&daemon, Some(0));
        daemon.reopen_logs();
        let lost = async || {
            assert!(daemon.is_running(), "it ended");
            let lost = daemon.metric(LOST).await;
            (lost > 0.0).then_some(()).ok_or("none")
        };
        eventually("a line is lost", LIMIT, lost).await;
        limit_files(&daemon, None);
        daemon.reopen_logs();
        until_written(&log, "log lines were lost").await;
        assert_eq!(daemon.stop(LIMIT).await.code(), Some(0));
        fs::remove_file(&log).unwrap();
    }
}

/// The limit cuts a line of the access log in two. The log reports the number of lost lines at every log level.
#[tokio::test]
async fn a_partly_written_line_is_counted_and_damages_no_other_line() {
    let fixture = DaemonFixture::new().await;
    let [flag, file] = flags(&fixture, "access = true\n");
    let given = [&flag, &file, "--log-format", "json", "--log-level", "error"];
    let api = fixture.start(DaemonProgram::Api, &given).await;
    let log = fixture.path("logs/access.log");
    let mut http = RawHttp::connect(api.listen()).await;
    let mut ask = async |from: usize, to: usize| {
        for number in from..to {
            let target = format!("/healthz?number={number}");
            http.request("GET", &target, &[], b"").await;
            http.answer().await.unwrap().expect(200);
        }
    };
    ask(0, 1).await;
    let first = until_written(&log, "number=0\"").await;
    // Room for three lines and a half.
    let room = first.len() as u64 * 7 / 2;
    limit_files(&api, Some(first.len() as u64 + room));
    ask(1, 20).await;
    let full = async || {
        let length = fs::metadata(&log).unwrap().len();
        (length == first.len() as u64 + room)
            .then_some(())
            .ok_or(length)
    };
    eventually("the file is full", LIMIT, full).await;
    // Of the 19 lines three fit.
    let lost = async || {
        let lost = api.metric(LOST).await;
        (lost >= 16.0).then_some(()).ok_or(lost)
    };
    eventually("lines are lost", LIMIT, lost).await;
    limit_files(&api, None);
    ask(20, 25).await;
    let written = until_written(&log, "number=24\"").await;
    let is_whole = |line: &&str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    let whole = written.lines().filter(is_whole).count();
    let lost = api.metric(LOST).await;
    assert_eq!(whole as f64 + lost, 25.0, "{lost} lost: {written}");
    for number in 20..25 {
        let name = format!("number={number}\"");
        let line = written.lines().find(|line| line.contains(&name));
        assert!(is_whole(&line.unwrap()), "{written}");
    }
    let message = until_written(&fixture.path("logs/error.log"), "log lines were lost").await;
    assert!(message.contains(&format!("\"lines\":{lost}")), "{message}");
    assert_eq!(api.stop(LIMIT).await.code(), Some(0));
}
