//! `tidegate dev`: starts a deployment, and leaves no process behind.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tidegate_testkit::program::DaemonProgram;
use tidegate_testkit::{RedisServer, eventually, free_port, start_redis};

use super::LIMIT;
use super::command_line::CommandLine;
use super::running::RunningCommand;

/// A `dev` on free ports, with the Redis of the test kit, which need not be installed.
fn dev(redis: &RedisServer, folder: Option<&Path>, arguments: &[&str]) -> RunningCommand {
    let port = || free_port().unwrap().to_string();
    let cli = CommandLine::unconnected("http://127.0.0.1:1", "k-of-no-server");
    let ports = [port(), port()];
    let mut command = cli.command(&["dev", "--port", &ports[0], "--admin-port", &ports[1]]);
    let program = redis.binary().path();
    let libraries = program.ancestors().nth(2).unwrap().join("lib");
    command
        .args(arguments)
        .env("TG_REDIS_SERVER", program)
        .env("LD_LIBRARY_PATH", libraries);
    if let Some(folder) = folder {
        command.arg("--folder").arg(folder);
    }
    RunningCommand::start(command)
}

async fn started(running: &mut RunningCommand) -> (CommandLine, Value) {
    let line = running.line().await.expect("it has started");
    let summary: Value = serde_json::from_str(&line).unwrap();
    let mut cli = CommandLine::unconnected(
        summary["url"].as_str().unwrap(),
        summary["key"].as_str().unwrap(),
    );
    cli.namespace = "demo";
    (cli, summary)
}

/// Waits until no process accepts connections at these URLs.
async fn wait_until_gone(summary: &Value) {
    for field in ["url", "admin_url", "redis_url"] {
        let url = summary[field].as_str().unwrap();
        let (_, address) = url.split_once("://").unwrap();
        eventually(
            "the port is closed",
            LIMIT,
            async || match tokio::net::TcpStream::connect(address).await {
                Ok(_) => Err(field),
                Err(_) => Ok(()),
            },
        )
        .await;
    }
}

#[tokio::test]
async fn a_deployment_is_started_stopped_and_keeps_its_data() {
    assert!(DaemonProgram::Pumpd.path().is_file());
    let redis = start_redis();
    let folder = tempfile::tempdir().unwrap();
    let mut running = dev(&redis, Some(folder.path()), &["--json"]);
    let (cli, summary) = started(&mut running).await;
    for daemon in ["tidegate-api", "tidegate-pumpd-1"] {
        let log = fs::read_to_string(folder.path().join(format!("{daemon}.log"))).unwrap();
        assert!(!log.contains("is ignored"), "{log}");
    }
    cli.out(&["publish", "q", "{}", "--key", "kept", "--delay", "1h"]);
    cli.out(&["publish", "q", "{}", "--key", "due", "--delay", "10ms"]);
    eventually("the pump moves jobs", LIMIT, async || {
        let job = cli.json(&["job", "show", "q", "key:due"]);
        if job["state"] == "ready" {
            Ok(())
        } else {
            Err(job)
        }
    })
    .await;
    // The folder is in use.
    let mut second = dev(&redis, Some(folder.path()), &[]);
    assert_eq!(second.end(), Some(1));
    running.signal("INT");
    assert_eq!(running.end(), Some(0));
    wait_until_gone(&summary).await;

    let mut again = dev(&redis, Some(folder.path()), &["--json"]);
    let (cli, summary) = started(&mut again).await;
    assert_eq!(
        cli.json(&["job", "show", "q", "key:kept"])["state"],
        "delayed"
    );
    again.signal("KILL");
    assert_eq!(again.end(), None);
    wait_until_gone(&summary).await;
}

#[tokio::test]
async fn the_printed_commands_work() {
    let redis = start_redis();
    let mut running = dev(&redis, None, &[]);
    let lines = running.lines_until("tidegate doctor").await;
    let commands: Vec<&str> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| line.starts_with("export ") || line.starts_with("tidegate "))
        .collect();
    let [export, publish, top, _, doctor] = commands[..] else {
        panic!("{lines:?}");
    };
    let program = Path::new(env!("CARGO_BIN_EXE_tidegate"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    // The variables of the command line are no settings of daemons, which name the variables that they ignore.
    let daemons = [
        DaemonProgram::Api,
        DaemonProgram::Pumpd,
        DaemonProgram::Relayd,
    ];
    let daemons = daemons.map(|daemon| format!("{} --print-config >&2\n", daemon.path().display()));
    let daemons = daemons.concat();
    let script = format!("{export}\n{daemons}{publish}\n{top}\n{doctor}\n");
    let ran = Command::new("bash")
        .args(["-euc", &script])
        .env("PATH", path)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{printed}{errors}");
    assert!(!errors.contains("is ignored"), "{errors}");
    assert!(
        printed.contains("close-unpaid") && printed.contains("order-17"),
        "{printed}"
    );
    assert!(printed.contains("ok       key"), "{printed}");
    assert!(printed.contains("ok       memory"), "{printed}");
    // The end of the program that has started it, such as a terminal.
    running.signal("HUP");
    running.signal("INT");
    assert_eq!(running.end(), Some(0));
    let rest = running.rest().await;
    for daemon in ["tidegate-api", "tidegate-pumpd-1"] {
        let ended = format!("  {daemon} has ended (exit status: 0)");
        assert!(rest.contains(&ended), "{rest:?}");
    }
}

/// A program that was just written is busy while a child of another thread, between fork and exec, has it open for
/// writing.
fn output_of_new_program(command: &mut Command) -> Output {
    loop {
        match command.output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                thread::park_timeout(Duration::from_millis(10));
            }
            output => return output.unwrap(),
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    let cli = CommandLine::unconnected("http://127.0.0.1:1", "k-of-no-server");
    let port = free_port().unwrap().to_string();
    let error = cli.error(1, &["dev", "--port", &port, "--admin-port", &port]);
    assert!(error.contains("--admin-port are both"), "{error}");
    let free = free_port().unwrap().to_string();
    let mut command = cli.command(&["dev", "--port", &port, "--admin-port", &free]);
    command.env("PATH", "").env_remove("TG_REDIS_SERVER");
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("install the package redis-server"),
        "{error}"
    );
    // Without the daemons beside it, too.
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("tidegate");
    fs::copy(env!("CARGO_BIN_EXE_tidegate"), &alone).unwrap();
    let mut command = Command::new(alone);
    command.args(["dev", "--port", &port, "--admin-port", &free]);
    let output = output_of_new_program(command.env("PATH", ""));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("no tidegate-api beside this program"),
        "{error}"
    );
}
