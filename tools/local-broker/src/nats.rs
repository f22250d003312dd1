//! A NATS server with JetStream.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_local_program::command;

use crate::tls::BrokerCertificate;

const VERSION_LIMIT: Duration = Duration::from_secs(10);
const READ_LIMIT: Duration = Duration::from_secs(1);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The server in the unpacked packages in `folder`.
pub(crate) fn program_in(folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join("usr/sbin/nats-server");
    command::run(Command::new(&path).arg("--version"), VERSION_LIMIT)?;
    Ok(path)
}

/// The command that runs the server. With a certificate, all clients must use TLS.
pub(crate) fn command(
    program: &Path,
    folder: &Path,
    port: u16,
    certificate: Option<&BrokerCertificate>,
) -> Command {
    let mut command = Command::new(program);
    command.args([
        "--addr",
        "127.0.0.1",
        "--port",
        &port.to_string(),
        "--jetstream",
        "--store_dir",
    ]);
    command.arg(folder.join("jetstream"));
    if let Some(BrokerCertificate { certificate, key }) = certificate {
        command.arg("--tls").arg("--tlscert").arg(certificate);
        command.arg("--tlskey").arg(key);
    }
    command
}

/// A server greets each client with a line that says whether JetStream is available.
pub(crate) fn probe(connection: &mut TcpStream) -> Result<(), String> {
    let mut bytes = [0; 2048];
    let limit = connection.set_read_timeout(Some(READ_LIMIT));
    let read = limit.and_then(|()| connection.read(&mut bytes));
    let read = read.map_err(|error| format!("no greeting: {error}"))?;
    let greeting = String::from_utf8_lossy(&bytes[..read]);
    match greeting.starts_with("INFO ") && greeting.contains("\"jetstream\":true") {
        true => Ok(()),
        false => Err("the greeting does not mention JetStream".to_owned()),
    }
}

/// Makes a stream, unless there is one of this name, with a request of the JetStream API.
pub(crate) fn make_stream(address: SocketAddr, name: &str) -> Result<(), String> {
    let request = format!(r#"{{"name":"{name}","subjects":["{name}"]}}"#);
    let lines = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB _INBOX.made 1\r\n\
         PUB $JS.API.STREAM.CREATE.{name} _INBOX.made {}\r\n{request}\r\n",
        request.len()
    );
    let ask = || -> std::io::Result<String> {
        let mut connection = TcpStream::connect(address)?;
        connection.set_read_timeout(Some(ANSWER_LIMIT))?;
        connection.write_all(lines.as_bytes())?;
        let mut answers = BufReader::new(connection).lines();
        // The answer follows a line that announces it.
        while let Some(line) = answers.next() {
            if line?.starts_with("MSG _INBOX.made") {
                return answers.next().unwrap_or_else(|| Ok(String::new()));
            }
        }
        Ok(String::new())
    };
    let answer = ask().map_err(|error| format!("making the stream: {error}"))?;
    match answer.contains("stream_create_response") && !answer.contains("\"error\"") {
        true => Ok(()),
        false => Err(format!("making the stream: {answer}")),
    }
}
