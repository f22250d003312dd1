//! Log files that cannot grow for a while. The limit that a process has on the size of its files
//! (`RLIMIT_FSIZE`) does to a write what a full disk does, in the middle of a line if need be.

use std::fs;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tidegate_testkit::{Daemon, Program, eventually};

use crate::fixture::{Fixture, LIMIT, until_written};

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

fn flags(fixture: &Fixture, more: &str) -> [String; 2] {
    fs::create_dir_all(fixture.path("logs")).unwrap();
    let directory = fixture.name("logs");
    let text = format!("[log]\ndirectory = \"{directory}\"\n{more}");
    ["--config".to_owned(), fixture.write("own.toml", &text)]
}

#[tokio::test]
async fn a_limit_on_the_size_of_files_ends_no_daemon() {
    let fixture = Fixture::new().await;
    for program in [Program::Api, Program::Pumpd] {
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
