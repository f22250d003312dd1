//! A RabbitMQ server with the Erlang that it needs.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_local_program::command;

use crate::ports::BrokerPorts;
use crate::tls::BrokerCertificate;

/// Packages of Erlang that RabbitMQ needs, for machines on which some are installed.
pub(crate) const PACKAGES: [&str; 16] = [
    "erlang-asn1",
    "erlang-base",
    "erlang-crypto",
    "erlang-eldap",
    "erlang-ftp",
    "erlang-inets",
    "erlang-mnesia",
    "erlang-os-mon",
    "erlang-parsetools",
    "erlang-public-key",
    "erlang-runtime-tools",
    "erlang-ssl",
    "erlang-syntax-tools",
    "erlang-tftp",
    "erlang-tools",
    "erlang-xmerl",
];

/// Less than the largest job of a Tidegate, so that tests can exceed it.
const MESSAGE_BYTES_MAX: usize = 1_000_000;

const VERSION_LIMIT: Duration = Duration::from_secs(30);
const READ_LIMIT: Duration = Duration::from_secs(1);

/// Debian's script has the path of an installed Erlang in it.
const ERL: &str = r#"#!/bin/sh
ROOTDIR=$(dirname "$(dirname "$(readlink -f "$0")")")
BINDIR=$(dirname "$(ls "$ROOTDIR"/erts-*/bin/erlexec)")
EMU=beam
PROGNAME=erl
export ROOTDIR BINDIR EMU PROGNAME
exec "$BINDIR/erlexec" "$@"
"#;

pub(crate) fn make_relocatable(folder: &Path) -> io::Result<()> {
    let erl = folder.join("usr/lib/erlang/bin/erl");
    fs::write(&erl, ERL)?;
    fs::set_permissions(erl, fs::Permissions::from_mode(0o755))
}

/// Returns the folder if its Erlang runs and RabbitMQ is in it.
pub(crate) fn check(folder: &Path) -> Result<PathBuf, String> {
    server_script(folder)?;
    let mut erl = Command::new(folder.join("usr/lib/erlang/bin/erl"));
    erl.args(["-noinput", "-eval", "halt()."])
        .envs(libraries(folder));
    command::run(&mut erl, VERSION_LIMIT)?;
    Ok(folder.to_owned())
}

fn server_script(folder: &Path) -> Result<PathBuf, String> {
    let missing = || "no RabbitMQ in it".to_owned();
    let mut versions = fs::read_dir(folder.join("usr/lib/rabbitmq/lib")).map_err(|_| missing())?;
    let version = versions.next().and_then(Result::ok).ok_or_else(missing)?;
    Ok(version.path().join("sbin/rabbitmq-server"))
}

fn libraries(folder: &Path) -> [(&'static str, String); 1] {
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders =
        ["usr/lib", "lib"].map(|lib| folder.join(lib).join(&machine).display().to_string());
    [("LD_LIBRARY_PATH", folders.join(":"))]
}

/// The process that knows the ports of Erlang nodes. A private one: the usual one would outlive the broker.
pub(crate) fn port_mapper(program: &Path, port: u16) -> Result<Command, String> {
    let erts = fs::read_dir(program.join("usr/lib/erlang")).map_err(|error| error.to_string())?;
    let is_erts = |name: &str| name.starts_with("erts-");
    let erts = erts
        .flatten()
        .find(|entry| is_erts(&entry.file_name().to_string_lossy()));
    let erts = erts.ok_or("no Erlang runtime in it")?.path();
    let mut command = Command::new(erts.join("bin/epmd"));
    command.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
    Ok(command)
}

/// Writes the settings into `folder`, and returns the command that runs the broker in the foreground.
pub(crate) fn command(
    program: &Path,
    folder: &Path,
    ports: BrokerPorts,
    queue: Option<&str>,
    certificate: Option<&BrokerCertificate>,
) -> Result<Command, String> {
    let text = |path: &Path| path.display().to_string();
    let mut settings = format!(
        "listeners.tcp.1 = 127.0.0.1:{}\nlog.console = true\nlog.console.level = info\nmax_message_size = {MESSAGE_BYTES_MAX}\n",
        ports.clients
    );
    if let Some(BrokerCertificate { certificate, key }) = certificate {
        settings.push_str(&format!(
            "listeners.ssl.1 = 127.0.0.1:{}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n",
            ports.tls,
            text(certificate),
            text(key)
        ));
    }
    let definitions = folder.join("definitions.json");
    if let Some(queue) = queue {
        let written = fs::write(&definitions, definitions_with(queue));
        written.map_err(|error| format!("writing the definitions: {error}"))?;
        settings.push_str(&format!("load_definitions = {}\n", text(&definitions)));
    }
    let config = folder.join("rabbitmq.conf");
    let plugins = folder.join("enabled_plugins");
    let written = fs::write(&config, settings).and_then(|()| fs::write(&plugins, "[].\n"));
    written.map_err(|error| format!("writing the settings: {error}"))?;
    let erlang = program.join("usr/lib/erlang/bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let arguments = "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}";
    let mut command = Command::new(server_script(program)?);
    command.envs(libraries(program)).envs([
        ("HOME", text(folder)),
        ("PATH", format!("{}:{path}", text(&erlang))),
        // Without it a shell runs as long as the broker, and a killed shell leaves the broker behind.
        ("detached", "1".to_owned()),
        ("ERL_EPMD_PORT", ports.mapper.to_string()),
        (
            "RABBITMQ_NODENAME",
            format!("tidegate-{}@localhost", ports.clients),
        ),
        ("RABBITMQ_MNESIA_BASE", text(&folder.join("data"))),
        ("RABBITMQ_LOG_BASE", text(folder)),
        ("RABBITMQ_LOGS", "-".to_owned()),
        ("RABBITMQ_CONFIG_FILE", text(&config)),
        ("RABBITMQ_CONF_ENV_FILE", text(&folder.join("none"))),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", text(&plugins)),
        ("RABBITMQ_DIST_PORT", ports.nodes.to_string()),
        ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", arguments.to_owned()),
    ]);
    Ok(command)
}

/// A durable queue, and the virtual host, user and permissions that a broker with definitions does not make by itself.
fn definitions_with(queue: &str) -> String {
    format!(
        r#"{{"users":[{{"name":"guest","password":"guest","tags":"administrator"}}],"vhosts":[{{"name":"/"}}],
"permissions":[{{"user":"guest","vhost":"/","configure":".*","write":".*","read":".*"}}],
"queues":[{{"name":"{queue}","vhost":"/","durable":true,"auto_delete":false,"arguments":{{}}}}]}}"#
    )
}

/// A broker that is up answers the header of the protocol with a frame of a method.
pub(crate) fn probe(connection: &mut TcpStream) -> Result<(), String> {
    let mut first = [0];
    let asked = connection
        .set_read_timeout(Some(READ_LIMIT))
        .and_then(|()| connection.write_all(b"AMQP\x00\x00\x09\x01"))
        .and_then(|()| connection.read_exact(&mut first));
    asked.map_err(|error| format!("no answer: {error}"))?;
    match first {
        [1] => Ok(()),
        _ => Err("the answer is not AMQP 0-9-1".to_owned()),
    }
}
