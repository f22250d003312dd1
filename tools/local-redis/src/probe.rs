//! Probes whether a server is up.

use std::io;
use std::net::Ipv4Addr;

use crate::blocking_client::BlockingClient;

/// Returns the process id of the server on this port.
///
/// # Errors
/// No server is up there.
pub(crate) fn probe(port: u16, login: &[&str]) -> io::Result<u32> {
    let mut client = BlockingClient::connect((Ipv4Addr::LOCALHOST, port), login)?;
    client.query(&["PING"])?;
    let information = client.query(&["INFO", "server"])?;
    let mut lines = information.lines();
    let id = lines.find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::Error::other("INFO has no process_id"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
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
        let port = server_that_answers("+PONG\r\n$28\r\n# Server\r\nprocess_id:4711\r\n\r\n\r\n");
        assert_eq!(probe(port, &[]).unwrap(), 4711);
    }

    #[test]
    fn a_loading_server_is_not_up_yet() {
        let port = server_that_answers("-LOADING Redis is loading the dataset in memory\r\n");
        let error = probe(port, &[]).unwrap_err().to_string();
        assert_eq!(
            error,
            "PING: -LOADING Redis is loading the dataset in memory"
        );
    }

    #[test]
    fn silence_and_absence_are_not_up() {
        let port = server_that_answers("");
        assert!(probe(port, &[]).is_err());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert!(probe(port, &[]).is_err());
    }
}
