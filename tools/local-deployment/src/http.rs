//! A minimal HTTP/1.0 client for the few requests to daemons of this machine: one request per connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(5);

/// Sends a request to 127.0.0.1. Returns the status and the body of the answer.
pub(crate) fn request(
    method: &str,
    port: u16,
    path: &str,
    body: &str,
) -> Result<(u16, String), String> {
    exchange(method, port, path, body)
        .map_err(|error| format!("{method} http://127.0.0.1:{port}{path}: {error}"))
}

fn exchange(method: &str, port: u16, path: &str, body: &str) -> Result<(u16, String), String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut text = String::new();
    let mut send = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        stream.write_all(request.as_bytes())?;
        stream.read_to_string(&mut text)?;
        Ok(())
    };
    send().map_err(|error| error.to_string())?;
    parse(&text).ok_or_else(|| "the answer is not HTTP".to_owned())
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head
        .strip_prefix("HTTP/1.")?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_status_and_a_body() {
        let answer =
            "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\r\n{\"token\": \"T\"}";
        assert_eq!(parse(answer), Some((201, "{\"token\": \"T\"}".to_owned())));
        assert_eq!(parse("+PONG\r\n\r\n"), None);
    }
}
