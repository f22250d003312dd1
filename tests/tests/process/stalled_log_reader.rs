//! A reader of standard error that stops: log lines are lost, and nothing else fails.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use tidegate_testkit::{DaemonProgram, RawHttp, eventually, full_pipe};

use crate::fixture::{DaemonFixture, LIMIT, ask};
use crate::service_manager::Running;
use crate::spawned::Spawned;

const LOST: &str = "tidegate_log_lines_lost_total";
/// Together the lines of the access log are longer than the pipe and the queue of the daemon.
const REQUESTS: usize = 700;
const QUERY_BYTES: usize = 16 * 1024;

fn start(fixture: &DaemonFixture) -> Spawned {
    let mut command = Command::new(DaemonProgram::Api.path());
    let flags = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    command.args(flags).args(["--redis", &fixture.redis.url()]);
    command.env("TIDEGATE_LOG__ACCESS", "true");
    Spawned::start(command)
}

/// Sends requests with long lines in the access log, all of which are answered.
async fn fill_the_log(api: &Spawned) {
    let target = format!("/healthz?x={}", "x".repeat(QUERY_BYTES));
    let mut http = RawHttp::connect(api.listen).await;
    for _ in 0..REQUESTS {
        http.request("GET", &target, &[], b"").await;
        http.answer().await.unwrap().expect(200);
    }
}

async fn lines_lost(api: &Spawned) -> f64 {
    let page = ask(api.admin, "GET", "/metrics", &[]).await.expect(200);
    let text = page.text();
    let mut samples = text.lines().filter_map(|line| line.strip_prefix(LOST));
    samples.next().unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn a_stalled_log_reader_delays_neither_requests_nor_a_stop() {
    let fixture = DaemonFixture::new().await;
    let mut api = start(&fixture);
    assert_eq!(lines_lost(&api).await, 0.0);
    fill_the_log(&api).await;
    ask(api.listen, "GET", "/readyz", &[]).await.expect(200);
    ask(api.admin, "GET", "/readyz", &[]).await.expect(200);
    let lost = lines_lost(&api).await;
    assert!(lost > 0.0 && lost < REQUESTS as f64, "{lost}");
    api.signal(Signal::TERM);
    assert_eq!(api.end().await.code(), Some(0));
}

#[tokio::test]
async fn the_log_counts_the_lost_lines_once_it_is_read_again() {
    let fixture = DaemonFixture::new().await;
    let mut api = start(&fixture);
    fill_the_log(&api).await;
    let lost = lines_lost(&api).await;
    let log = api.read_on();
    let until_said = async |text: &str| {
        let find_text = async || log.lock().unwrap().contains(text).then_some(()).ok_or(lost);
        eventually(&format!("the log says {text:?}"), LIMIT, find_text).await;
    };
    until_said("log lines were lost").await;
    until_said(&format!("lines={lost}")).await;
    api.signal(Signal::TERM);
    assert_eq!(api.end().await.code(), Some(0));
    until_said(" stopped").await;
}

#[tokio::test]
async fn a_failed_start_ends_even_if_its_error_cannot_be_written() {
    let (_reader, pipe) = full_pipe();
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let mut command = Command::new(program.path());
        command.args(["--log-level", "loud"]).stdout(Stdio::null());
        let child = command.stderr(pipe.try_clone().unwrap()).spawn();
        let mut running = Running(child.unwrap());
        let ended = async || running.0.try_wait().unwrap().ok_or("it runs");
        let status = eventually("it ends", LIMIT, ended).await;
        assert_eq!(status.code(), Some(1));
    }
}
