//! A reader of standard error that stops: lines are lost, and nothing else.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use tidegate_testkit::{Program, RawHttp, eventually, full_pipe};

use crate::fixture::{Fixture, LIMIT, ask};
use crate::service_manager::Running;
use crate::spawned::Spawned;

const LOST: &str = "tidegate_log_lines_lost_total";
/// Together the lines of the access log are longer than the pipe and the queue of the daemon.
const REQUESTS: usize = 700;
const QUERY_BYTES: usize = 16 * 1024;

fn start(fixture: &Fixture) -> Spawned {
    let mut command = Command::new(Program::Api.path());
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
async fn both_ports_answer_and_a_stop_ends_it() {
    let fixture = Fixture::new().await;
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
async fn the_log_says_how_many_lines_are_missing_once_it_is_read_again() {
    let fixture = Fixture::new().await;
    let mut api = start(&fixture);
    fill_the_log(&api).await;
    let lost = lines_lost(&api).await;
    let log = api.read_on();
    let until_said = async |text: &str| {
        let said = async || log.lock().unwrap().contains(text).then_some(()).ok_or(lost);
        eventually(&format!("the log says {text:?}"), LIMIT, said).await;
    };
    until_said("log lines were lost").await;
    until_said(&format!("lines={lost}")).await;
    api.signal(Signal::TERM);
    assert_eq!(api.end().await.code(), Some(0));
    until_said(" stopped").await;
}

#[tokio::test]
async fn a_start_that_fails_ends_although_its_error_cannot_be_written() {
    let (_reader, pipe) = full_pipe();
    for program in [Program::Api, Program::Pumpd] {
        let mut command = Command::new(program.path());
        command.args(["--log-level", "loud"]).stdout(Stdio::null());
        let child = command.stderr(pipe.try_clone().unwrap()).spawn();
        let mut running = Running(child.unwrap());
        let ended = async || running.0.try_wait().unwrap().ok_or("it runs");
        let status = eventually("it ends", LIMIT, ended).await;
        assert_eq!(status.code(), Some(1));
    }
}
