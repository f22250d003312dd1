//! Messages to a service manager over its socket (`NOTIFY_SOCKET`).

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command};

use tidegate_testkit::{DaemonProgram, eventually};

use crate::fixture::{DaemonFixture, LIMIT, ask, until_said};

/// A message that fills the socket.
const FILLING: &str = "filling";

/// The socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new(fixture: &DaemonFixture) -> Self {
        let path = fixture.name("notify");
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, path }
    }

    /// The same, with no room for another message.
    fn stalled(fixture: &DaemonFixture) -> Self {
        let manager = Self::new(fixture);
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_nonblocking(true).unwrap();
        loop {
            match sender.send_to(FILLING.as_bytes(), &manager.path) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return manager,
                Err(error) => panic!("the socket cannot be filled: {error}"),
            }
        }
    }

    /// The environment of a daemon that sends two watchdog messages in each interval of this length.
    fn watchdog<'a>(&'a self, limit_us: &'a str) -> [(&'a str, &'a str); 2] {
        [("NOTIFY_SOCKET", &self.path), ("WATCHDOG_USEC", limit_us)]
    }

    /// The next message that is neither a watchdog message nor one that filled the socket.
    async fn told_of_state(&self) -> String {
        loop {
            let told = self.told().await;
            if told != FILLING && told != "WATCHDOG=1\n" {
                return told;
            }
        }
    }

    /// The next message.
    async fn told(&self) -> String {
        eventually("a message arrives", LIMIT, async || {
            let mut message = [0; 1000];
            match self.socket.recv(&mut message) {
                Ok(length) => Ok(String::from_utf8_lossy(&message[..length]).into_owned()),
                Err(error) => Err(error),
            }
        })
        .await
    }
}

#[tokio::test]
async fn start_reload_and_stop_are_reported() {
    let fixture = DaemonFixture::new().await;
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let manager = Manager::new(&fixture);
        let environment = [("NOTIFY_SOCKET", manager.path.as_str())];
        let daemon = fixture.start_with(program, &[], &environment).await;
        assert_eq!(manager.told().await, "READY=1\n");
        daemon.reload();
        let told = manager.told().await;
        assert!(told.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{told}");
        assert_eq!(manager.told().await, "READY=1\n");
        daemon.terminate();
        assert_eq!(manager.told().await, "STOPPING=1\n");
        assert_eq!(daemon.wait(LIMIT).await.code(), Some(0));
    }
}

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Standard error is a full disk, so the test follows the daemon by its messages to the service manager.
#[tokio::test]
async fn a_pump_works_while_standard_error_cannot_be_written() {
    let fixture = DaemonFixture::new().await;
    let full = File::options().write(true).open("/dev/full").unwrap();
    let manager = Manager::new(&fixture);
    let child = Command::new(DaemonProgram::Pumpd.path())
        .args(["--redis", &fixture.redis.url(), "--log-level", "trace"])
        .args(["--admin-listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", &manager.path)
        .stderr(full)
        .spawn()
        .unwrap();
    let mut running = Running(child);
    assert_eq!(manager.told().await, "READY=1\n");
    let asked = Command::new("kill")
        .arg(running.0.id().to_string())
        .status();
    assert!(asked.unwrap().success());
    assert_eq!(manager.told().await, "STOPPING=1\n");
    let status = eventually("it ends", LIMIT, async || {
        running.0.try_wait().unwrap().ok_or("it runs")
    });
    assert_eq!(status.await.code(), Some(0));
}

#[tokio::test]
async fn watchdog_messages_are_sent_when_requested() {
    let fixture = DaemonFixture::new().await;
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let manager = Manager::new(&fixture);
        let environment = manager.watchdog("100000");
        let _daemon = fixture.start_with(program, &[], &environment).await;
        assert_eq!(manager.told().await, "READY=1\n");
        for _ in 0..5 {
            assert_eq!(manager.told().await, "WATCHDOG=1\n");
        }
    }
}

#[tokio::test]
async fn a_manager_that_does_not_read_delays_neither_work_nor_reload_nor_stop() {
    let fixture = DaemonFixture::new().await;
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let manager = Manager::stalled(&fixture);
        let environment = manager.watchdog("20000");
        let flags: &[&str] = match program {
            DaemonProgram::Api => &["-sv"],
            DaemonProgram::Pumpd | DaemonProgram::Relayd => &[],
        };
        let daemon = fixture.start_with(program, flags, &environment).await;
        eventually("it is ready", LIMIT, async || {
            let answer = ask(daemon.admin(), "GET", "/readyz", &[]).await;
            (answer.status == 200).then_some(()).ok_or(answer.text())
        })
        .await;
        if program == DaemonProgram::Api {
            let listen = daemon.listen();
            ask(listen, "PUT", "/api/ns/q", &[]).await.expect(201);
        }
        daemon.reload();
        until_said(&daemon, "reloaded settings").await;
        assert_eq!(daemon.stop(LIMIT).await.code(), Some(0));
    }
}

#[tokio::test]
async fn a_manager_that_reads_again_receives_all_states_in_order() {
    let fixture = DaemonFixture::new().await;
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let manager = Manager::stalled(&fixture);
        let environment = manager.watchdog("20000");
        let daemon = fixture.start_with(program, &[], &environment).await;
        daemon.reload();
        until_said(&daemon, "reloaded settings").await;
        assert_eq!(manager.told_of_state().await, "READY=1\n");
        let told = manager.told_of_state().await;
        assert!(told.starts_with("RELOADING=1\n"), "{told}");
        assert_eq!(manager.told_of_state().await, "READY=1\n");
        daemon.terminate();
        assert_eq!(manager.told_of_state().await, "STOPPING=1\n");
        assert_eq!(daemon.wait(LIMIT).await.code(), Some(0));
    }
}
