//! Signals that come early, twice, or while something is blocked.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use tidegate_testkit::{Daemon, DaemonProgram, RawHttp, eventually, run_until_exit_with};
use tokio::time::sleep;

use crate::fixture::{DaemonFixture, LIMIT, ask, until_said, until_written};
use crate::service_manager::Running;

/// Signals that are further apart are different requests to stop.
pub(crate) const NEXT_REQUEST: Duration = Duration::from_millis(1200);

/// A file that cannot be read: opening it waits until some process writes it.
fn make_fifo(fixture: &DaemonFixture, name: &str) -> String {
    let _ = fs::remove_file(fixture.path(name));
    let made = Command::new("mkfifo").arg(fixture.path(name)).status();
    assert!(made.unwrap().success());
    fixture.name(name)
}

/// Whether a process has handlers for these signals.
fn handles(pid: u32, signals: &[Signal]) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    let bit = |signal: &Signal| 1 << (signal.as_raw() - 1);
    signals.iter().all(|signal| caught & bit(signal) != 0)
}

/// Writes settings to a FIFO that a process reads.
async fn feed(fifo: &str) {
    let mut options = File::options();
    // Without a reader it fails instead of waiting for one.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let options = options.write(true).custom_flags(flags);
    let mut writer = eventually("it is read", LIMIT, async || options.open(fifo)).await;
    writer.write_all(b"[log]\n").unwrap();
}

#[tokio::test]
async fn a_blocked_reload_delays_neither_a_stop_nor_the_next_reload() {
    let fixture = DaemonFixture::new().await;
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let _ = fs::remove_file(fixture.path("own.toml"));
        let file = fixture.write("own.toml", "");
        let daemon = fixture.start(program, &["--config", &file]).await;
        make_fifo(&fixture, "own.toml");
        daemon.reload();
        until_said(&daemon, "the files were not read within").await;
        fs::remove_file(fixture.path("own.toml")).unwrap();
        fixture.write("own.toml", "[log]\nlevel = \"debug\"\n");
        daemon.reload();
        until_said(&daemon, "log.level").await;
        make_fifo(&fixture, "own.toml");
        daemon.reload();
        // Time for the reload to open the file.
        sleep(Duration::from_millis(300)).await;
        assert_eq!(daemon.stop(LIMIT).await.code(), Some(0));
    }
}

/// The settings come from a FIFO, so the start takes as long as the test wants.
#[tokio::test]
async fn signals_during_the_start_are_handled_after_it() {
    let fixture = DaemonFixture::new().await;
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let fifo = make_fifo(&fixture, "fifo");
        let log = File::create(fixture.path("log")).unwrap();
        let mut command = Command::new(program.path());
        command.args(["--config", &fifo, "--redis", &fixture.redis.url()]);
        command.args(["--admin-listen", "127.0.0.1:0", "--log-level", "debug"]);
        if program == DaemonProgram::Api {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        let mut running = Running(child.unwrap());
        let pid = Pid::from_child(&running.0);
        let signals = [Signal::HUP, Signal::USR1];
        eventually("it handles signals", LIMIT, async || {
            assert_eq!(running.0.try_wait().unwrap(), None);
            handles(running.0.id(), &signals)
                .then_some(())
                .ok_or("not yet")
        })
        .await;
        for signal in signals {
            kill_process(pid, signal).unwrap();
        }
        let log = fixture.path("log");
        feed(&fifo).await;
        until_written(&log, " ready ").await;
        // The pending SIGHUP makes it read the settings again.
        feed(&fifo).await;
        until_written(&log, "reloaded settings").await;
        until_written(&log, "signal=\"SIGUSR1\"").await;
        kill_process(pid, Signal::TERM).unwrap();
        let ended = async || running.0.try_wait().unwrap().ok_or("it runs");
        assert_eq!(eventually("it ends", LIMIT, ended).await.code(), Some(0));
    }
}

#[tokio::test]
async fn a_further_signal_ends_a_slow_stop() {
    let fixture = DaemonFixture::new().await;
    for delay in ["0s", "1h"] {
        let text = format!("drain_timeout = \"60s\"\ndrain_delay = \"{delay}\"\n");
        let file = fixture.write("own.toml", &text);
        let flags = ["--config", &file, "-sv"];
        let api = fixture.start(DaemonProgram::Api, &flags).await;
        // Its body is never sent.
        let mut slow = RawHttp::connect(api.listen()).await;
        let head = "PUT /api/ns/q HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n";
        assert!(slow.send(head).await);
        let begin = Instant::now();
        api.terminate();
        if delay == "0s" {
            until_said(&api, " stopping signal=").await;
        } else {
            until_said(&api, " stopping after a delay").await;
            ask(api.listen(), "GET", "/healthz", &[]).await.expect(200);
            sleep(NEXT_REQUEST).await;
            api.terminate();
            until_said(&api, " stopping\n").await;
        }
        sleep(NEXT_REQUEST).await;
        api.terminate();
        assert_eq!(api.wait(LIMIT).await.code(), Some(1), "{}", api.log());
        assert!(begin.elapsed() < LIMIT);
        until_said(&api, "ending at once").await;
    }
}

/// As GNU `timeout`, npm and terminals send them: to the process and to its group.
#[tokio::test]
async fn signals_within_a_second_of_the_first_are_one_request() {
    let fixture = DaemonFixture::new().await;
    let twice = |daemon: &Daemon| {
        daemon.terminate();
        let pid = Pid::from_raw(daemon.pid().cast_signed()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
    };
    for delay in [Duration::ZERO, Duration::from_millis(1500)] {
        let text = format!(
            "drain_timeout = \"60s\"\ndrain_delay = \"{}ms\"\n",
            delay.as_millis()
        );
        let file = fixture.write("own.toml", &text);
        let flags = ["--config", &file, "-sv"];
        let api = fixture.start(DaemonProgram::Api, &flags).await;
        let mut slow = RawHttp::connect(api.listen()).await;
        let head = "PUT /api/ns/q HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n";
        assert!(slow.send(head).await);
        let began_at = Instant::now();
        twice(&api);
        let begun = if delay.is_zero() {
            " stopping signal="
        } else {
            " stopping\n"
        };
        until_said(&api, begun).await;
        assert!(began_at.elapsed() >= delay, "{}", api.log());
        // A process that ends at once does so 100 ms later.
        sleep(Duration::from_millis(300)).await;
        assert!(slow.send("{}").await);
        slow.answer().await.expect("an answer").expect(201);
        assert_eq!(api.wait(LIMIT).await.code(), Some(0), "{}", api.log());
    }
    let pump = fixture.start(DaemonProgram::Pumpd, &[]).await;
    twice(&pump);
    assert_eq!(pump.wait(LIMIT).await.code(), Some(0), "{}", pump.log());
}

#[tokio::test]
async fn a_drain_delay_above_one_hour_is_refused() {
    let environment = [("TIDEGATE_DRAIN_DELAY", "61m")];
    let flags = ["--print-config"];
    let ended = run_until_exit_with(DaemonProgram::Api, &flags, &environment, LIMIT).await;
    assert_eq!(ended.code, Some(1));
    let message = "drain_delay must be 0s to 1h";
    assert!(ended.log.contains(message), "{}", ended.log);
}
