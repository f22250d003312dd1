//! Probes whether a server is up, with inline commands.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const ANSWER_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// A server accepts commands; its process id.
    Ready(u32),
    /// No server accepts commands yet (loading, silent, connection refused); the reason.
    NotReady(String),
}

/// Probes the server on 127.0.0.1. `login` has the arguments of AUTH. Each I/O operation may take a second. The process
/// id distinguishes the server from another server that has taken the port.
pub(crate) fn probe(port: u16, login: Option<&str>) -> ProbeResult {
    try_probe(port, login).unwrap_or_else(|error| ProbeResult::NotReady(error.to_string()))
}

fn try_probe(port: u16, login: Option<&str>) -> io::Result<ProbeResult> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    if let Some(login) = login {
        stream.write_all(format!("AUTH {login}\r\n").as_bytes())?;
        read_line(&mut answers)?;
    }
    stream.write_all(b"PING\r\n")?;
    let pong = read_line(&mut answers)?;
    if pong != "+PONG" {
        return Ok(ProbeResult::NotReady(pong));
    }
    stream.write_all(b"INFO server\r\n")?;
    let size = read_line(&mut answers)?;
    let Some(size) = size
        .strip_prefix('$')
        .and_then(|size| size.parse::<u64>().ok())
    else {
        return Ok(ProbeResult::NotReady(size));
    };
    let mut text = String::new();
    answers.take(size).read_to_string(&mut text)?;
    Ok(process_id(&text).map_or_else(
        || ProbeResult::NotReady("INFO has no process_id".to_owned()),
        ProbeResult::Ready,
    ))
}

fn read_line(answers: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if answers.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

fn process_id(information: &str) -> Option<u32> {
    information
        .lines()
        .find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn server_that_answers(answers: &'static str) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answers.as_bytes()).unwrap();
            let _ = stream.read(&mut [0; 256]);
        });
        port
    }

    #[test]
    fn a_server_that_is_up_reports_its_process_id() {
        let port = server_that_answers("+PONG\r\n$30\r\n# Server\r\nprocess_id:4711\r\n\r\n\r\n");
        assert_eq!(probe(port, None), ProbeResult::Ready(4711));
    }

    #[test]
    fn a_loading_server_is_not_up_yet() {
        let port = server_that_answers("-LOADING Redis is loading the dataset in memory\r\n");
        assert_eq!(
            probe(port, None),
            ProbeResult::NotReady("-LOADING Redis is loading the dataset in memory".to_owned())
        );
    }

    #[test]
    fn silence_and_absence_are_not_up() {
        let port = server_that_answers("");
        assert!(matches!(probe(port, None), ProbeResult::NotReady(_)));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert!(matches!(probe(port, None), ProbeResult::NotReady(_)));
    }
}
