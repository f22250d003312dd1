//! What a service manager is told over its socket.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command};

use tidegate_testkit::{Program, eventually};

use crate::fixture::{Fixture, LIMIT};

/// The socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new(fixture: &Fixture) -> Self {
        let path = fixture.name("notify");
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, path }
    }

    /// The next message.
    async fn told(&self) -> String {
        eventually("the service manager is told", LIMIT, async || {
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
async fn it_is_told_of_the_start_of_reloads_and_of_the_end() {
    let fixture = Fixture::new().await;
    for program in [Program::Api, Program::Pumpd] {
        let manager = Manager::new(&fixture);
        let environment = [("NOTIFY_SOCKET", manager.path.as_str())];
        let daemon = fixture.start_with(program, &[], &environment).await;
        assert_eq!(manager.told().await, "READY=1\n");
        daemon.hang_up();
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

/// Standard error is a disk without room. What the daemon says is lost, so its manager has to be asked.
#[tokio::test]
async fn whoever_cannot_say_anything_works_all_the_same() {
    let fixture = Fixture::new().await;
    let full = File::options().write(true).open("/dev/full").unwrap();
    let manager = Manager::new(&fixture);
    let child = Command::new(Program::Pumpd.path())
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
async fn signs_of_life_come_when_they_are_asked_for() {
    let fixture = Fixture::new().await;
    for program in [Program::Api, Program::Pumpd] {
        let manager = Manager::new(&fixture);
        let environment = [
            ("NOTIFY_SOCKET", manager.path.as_str()),
            ("WATCHDOG_USEC", "100000"),
        ];
        let _daemon = fixture.start_with(program, &[], &environment).await;
        assert_eq!(manager.told().await, "READY=1\n");
        for _ in 0..5 {
            assert_eq!(manager.told().await, "WATCHDOG=1\n");
        }
    }
}
